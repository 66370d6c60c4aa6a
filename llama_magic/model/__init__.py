"""A model as people call it: the prompt, the call, the answer as it grows, structured answers, results.

`model.py` is the door (`Model`), `generate.py` the calls that write, `measuring.py` those that write nothing
(`bounded` ends them), `file.py` what a model keeps of its file. The way of a call:

- its options: `asked` checks them, `options` are they as keywords, `other_names` what other libraries call
  them, `bias` finds the token of a text;
- its prompt: `interpolate` fills `{{ }}` (`evaluate` one expression, `missing` a name that is not there,
  `gaps` a value that is none, `proportion` what one may make; `wording` is how errors speak of it),
  `prompt` makes tokens of a text or of messages, `counted` of what is new in a chat, `begun` of an answer's
  beginning; `guard` and `overflow` see that it fits, turns that were `left_out` are named;
- the request: `call` goes through all this, `assemble` puts it together, `standing_in` lets a replay
  answer;
- the answer: `answer` puts events together, a `sample` at a time; `stream` and `astream` hand it out,
  `mail` takes it into an asyncio loop;
- a structured one: `structured` is the call, a list of prompts a `batch`; `attempts` asks again,
  `thinking` may stand before it, `finished` makes the instance; a `succession` is several streams as one;
- tools: `tools/`, functions that a model calls;
- what comes of it: `results` (`Completion`), `logprobs`, `drafts`, `stats`; `branching` and `forks`, other
  ways on from a token; `again`, a receipt asked again; `shapes`, what a receipt looks like; `keyed`, what
  keeps the order of its keys; `earlier`, receipts that refer to others; `growing`, digests of growing texts.

`journal` tells listeners of answers, `hearing` of what texts were cut into; `scoring` draws nothing;
`parted` ends answers under way in a forked child.
"""
