"""Writes cases.jsonl: templates, variables and the text that Jinja2 makes of them, set up as transformers does.

    python3 -m venv v && v/bin/pip install jinja2==3.1.6 && v/bin/python make_cases.py >cases.jsonl

A case without "text" is one that Jinja2 refuses to render. The templates were written for this project, in the manner
of those that models carry.
"""
import json
import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment


def tojson(x, indent=None):
    return json.dumps(x, ensure_ascii=False, indent=indent)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception

CHATML = """{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
TURNS = """{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% set system = messages[0]['content'] %}
{% else %}{% set rest = messages %}{% set system = false %}{% endif %}
{% for m in rest %}
    {% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{ raise_exception('turns: user, assistant, user, ...') }}
    {% endif %}
    {% if loop.index0 == 0 and system != false %}
        {% set text = '<<' + system + '>>\\n' + m['content'] %}
    {% else %}
        {% set text = m['content'] %}
    {% endif %}
    {% if m['role'] == 'user' %}
{{ bos_token + '[U] ' + text.strip() + ' [/U]' }}
    {% else %}
{{ ' ' + text | trim + ' ' + eos_token }}
    {% endif %}
{% endfor %}"""
HEADERS = """{% set all = messages %}{% for m in all %}{% set text = '<h>' + m['role'] + '</h>

' + m['content'] | trim + '<e>' %}{% if loop.first %}{% set text = bos_token + text %}{% endif %}{{ text }}{% endfor -%}
   {% if add_generation_prompt %}{{ '<h>assistant</h>\\n\\n' }}{% endif %}"""
THINKING = """{#- what was thought is left out of what lies behind -#}
{%- if tools %}
    {{- '<tools>' }}
    {%- for tool in tools %}
        {{- '\\n' + tool | tojson }}
    {%- endfor %}
    {{- '\\n</tools>\\n' }}
{%- endif %}
{%- set ns = namespace(last=messages | length - 1, looking=true) %}
{%- for m in messages[::-1] %}
    {%- set index = (messages | length - 1) - loop.index0 %}
    {%- if ns.looking and m.role == "user" and m.content is string and not(m.content.startswith('<r>') and m.content.endswith('</r>')) %}
        {%- set ns.looking = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for m in messages %}
    {%- if m.role == "assistant" %}
        {%- set answer = m.content %}
        {%- set thought = '' %}
        {%- if m.thought is defined and m.thought is not none %}
            {%- set thought = m.thought %}
        {%- elif '</think>' in m.content %}
            {%- set answer = m.content.split('</think>')[-1].lstrip('\\n') %}
            {%- set thought = m.content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and thought %}
            {{- '<a><think>\\n' + thought.strip('\\n') + '\\n</think>\\n' + answer }}
        {%- else %}
            {{- '<a>' + answer }}
        {%- endif %}
        {%- for call in m.calls or [] %}
            {%- if call.function %}{% set call = call.function %}{% endif %}
            {{- '\\n{"name": "' ~ call.name ~ '", "arguments": ' }}
            {{- call.arguments if call.arguments is string else call.arguments | tojson }}
            {{- '}' }}
        {%- endfor %}
        {{- '</a>\\n' }}
    {%- elif m.role == 'tool' %}
        {%- if loop.first or (messages[loop.index0 - 1].role != 'tool') %}{{ '<u>' }}{% endif %}
        {{- '<r>' + m.content + '</r>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != 'tool') %}{{ '</u>\\n' }}{% endif %}
    {%- else %}
        {{- '<' + m.role[0] + '>' + m.content + '</' + m.role[0] + '>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<a>' }}
    {%- if thinking is defined and thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
SNIPPETS = [
    "{{ 1 + 2 * 3 - 4 // 3 }} {{ 7 % 3 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 1.5 * 2 }} {{ 2 ~ 'a' ~ 1.5 ~ true ~ none }}",
    "{{ 'a' 'b' }} {{ 'x' if false }} {{ 'x' if 0 else 'y' }} {{ not 1 == 2 }} {{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' in 'cat' }} {{ 4 not in [1, 2] }} {{ 'k' in {'k': 1} }}",
    "{{ [1,2,3][::-1]|tojson }} {{ [1,2,3,4][1:3]|tojson }} {{ [1,2,3][-2:]|tojson }} {{ 'hello'[1:3] }} {{ 'hello'[-1] }} {{ 'h\u00e9\u00e9'[1:] }}",
    "{{ 'abc'[5:] }} {{ [1,2,3][5:1]|tojson }} {{ [1,2,3,4,5][4:1:-2]|tojson}} {{ [1,2,3][:-1]|tojson }} {{ [1,2,3][-9:2]|tojson }} {{ [1,2,3][2:-9:-1]|tojson}}",
    "{% for k, v in {'a': 1, 'b': [1, {'c': none}]}|items %}{{ k }}={{ v|tojson }};{% endfor %} {{ {'a':[]}|tojson(indent=2) }} {{ {'a':[1,{'b':2}]}|tojson(indent=4) }}",
    "{% for x in [1,2,3,4] if x is even %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ ',' if not loop.last }}{% else %}none{% endfor %}|{% for x in [] %}a{% else %}none{% endfor %}",
    "{% set ns = namespace(a=1) %}{% for i in range(3) %}{% set ns.a = ns.a + i %}{% set z = i %}{% endfor %}{{ ns.a }}{{ z is defined }}",
    "{% set x %}hi {{ 1 }}{% endset %}[{{ x }}]\n{# comment #}\n  {% if true %}\n  yes\n  {% endif %}\nend\n\n",
    "  {%- if true -%}  a  {%- endif -%}  b {{- ' c ' -}} d\n   {{ 'e' }}\n  {% if 1 %} f {% endif %}\n g",
    "a\n  {#- c -#}  \n b {%+ if true %}\n x{% endif +%}\n y",
    "{{ ' a b  c '.split() | tojson }} {{ 'a,b,,c'.split(',') | tojson }} {{ 'a,b,c'.split(',', 1)|tojson }} {{ ' a b c '.split(none, 1)|tojson }}",
    "{{ 'xxaxx'.strip('x') }} {{ '\u00a0a\u3000'.strip() }}| {{ 'abc'.startswith('ab') }} {{ 'AbC'|lower }} {{ 'hello world'|title }} {{ 'hELLO wORLD'|capitalize }} {{ 'a-b'.replace('-', '+') }}",
    "{{ nothing }}{{ nothing is defined }}{{ nothing|default('d') }}{{ ''|default('e', true) }}{{ messages[0].nothing }}{{ messages[0].nothing is undefined }}{{ messages[9] is defined }}",
    "{{ nothing.more }}",
    "{{ [1,'a',none]|join('-') }} {{ messages|map(attribute='role')|join(',') }} {{ (messages|selectattr('role','equalto','user')|list)|length }} {{ messages|first|tojson }} {{ (messages|last).role }}",
    "{{ 5|string + 'a' }} {{ '12'|int + 1 }} {{ 3.7|int }} {{ 'x'|length }} {{ '\u00e9\u20ac\U0001f600'|length }} {{ [3,1]|reverse|list|tojson }}",
    "{{ 1 is number }} {{ 'a' is string }} {{ {} is mapping }} {{ [] is iterable }} {{ none is none }} {{ true is boolean }} {{ 1.0 is float }} {{ 1 is integer }} {{ 1 is not string }} {{ true is true }}",
    "{{ messages[0]['content'][:3] + '...' }}{{ messages[-1].role }}{{ (messages[1:])|length }}{{ 'a' and 'b' }}{{ '' or 'c' }}{{ none or 0 }}",
    "{{ {'a': {'b': [10, 20]}}.a.b[1] }} {{ {'a': 1}.get('b', 7) }} {{ {'a': 1}['a'] }} {{ {'x':1,'y':2}.keys()|list|tojson }} {{ {'x':1}.items()|list|tojson }}",
    "{{ \"q\\\"\\'\\n\\t\\\\ \\u00e9\" }} {{ 'a\\qb' }}",
    "{{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' == 'a' }} {{ [1,[2]] == [1,[2]] }} {{ {'a':1} == {'a':1} }} {{ none == false }} {{ 'b' > 'a' }}",
    "{{ (1, 2)|tojson }} {{ -1 }} {{ 1 - -1 }} {{ - 2 + 3 }} {{ 10 - 2 - 3 }} {{ 2 * 3 ~ 'x' }} {{ 1e3 }} {{ 0.1 + 0.2 }} {{ 3.0 }}",
    "{{ 'a' ~ 1 + 2 }}",
    "{{ raise_exception('no ' ~ 1) }}",
    "{% for a in [1, 2] %}{% for b in 'xy' %}{{ a }}{{ b }}{{ loop.revindex }}{% endfor %}{{ loop.index }};{% endfor %}",
]
CHATS = [
    [{"role": "user", "content": "Hi there "}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
     {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello."}, {"role": "user", "content": "Bye"}],
    [{"role": "user", "content": "a\"b\\ \n \u00e9 <|im_end|>"}, {"role": "assistant", "content": ""},
     {"role": "user", "content": " "}],
    [{"role": "user", "content": "x"},
     {"role": "assistant", "content": "<think>y</think>c",
      "calls": [{"function": {"name": "f", "arguments": {"a": [1, 2.5, None, True]}}}, {"name": "g", "arguments": "{}"}]},
     {"role": "tool", "content": "r1"}, {"role": "tool", "content": "r2"}],
]


def case(template, variables):
    c = {"template": template, "variables": variables}
    try:
        c["text"] = env.from_string(template).render(**variables)
    except Exception:
        pass
    print(json.dumps(c))


always = {"add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"}
for template in (CHATML, TURNS, HEADERS, THINKING):
    for chat in CHATS:
        case(template, dict(messages=chat, **always))
case(THINKING, dict(messages=CHATS[0], thinking=False, tools=[{"name": "f", "d": "\u00e9"}], **always))
for template in SNIPPETS:
    case(template, dict(messages=CHATS[1], **always))
