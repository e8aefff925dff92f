/* The stand-in: shipped defaults lists begin with `model: tiny_qwen3`, a model to try the program
 * with on a CPU. Nobody chose it, so it is left out where somebody asks for something else:
 *
 *   - other hardware: hardware=, ~hardware or an `override hardware` that is not cpu, a hardware.id
 *     that is not cpu, or a value that describes a device: memory, peaks, links
 *   - another model: model.ref, model.hub, model.name, model.config,
 *     model.weights_gb
 *
 * model.hub then takes the file of the group `model` that has that hub name. Without one, no model
 * is chosen, and commands that need one refuse. A model that the command line or an `override`
 * picks, or that a list names otherwise, stays. */
#ifndef CONFIG_STAND_IN_H
#define CONFIG_STAND_IN_H

#include "config/defaults.h"

/* Whether an entry of a defaults list, which no choice replaces, is the stand-in. */
bool stand_in_is(const char *group, const struct node *value);
/* Whether it stays beside the hardware that is chosen instead of the list's; NULL = none. */
bool stand_in_beside(const struct node *hardware);
/* Whether it stays beside these words of the command line. */
bool stand_in_fits(const struct override *words, size_t n);
/* The name of the model's file that has the hub name that was typed; *out NULL = there is none. */
enum st stand_in_by_hub(struct arena *a, const struct compose_args *args, const struct node **out,
                        struct err *e);
/* model=ORG/NAME, which is no file of the group: the file that has that hub name, else
 * model.ref=ORG/NAME, which job/ looks for in the hub's cache. Changes such words. */
enum st stand_in_model_words(struct arena *a, const struct sources *s, struct override *words,
                             size_t n, struct err *e);

#endif
