typedef int tw_empty_translation_unit; /* a module whose first source file is still to come */
