"""Every option has a test in which it works: the list is made from the tables, and a gap is named."""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from pathlib import Path

import pytest

import llama_magic as lm
from llama_magic.loading.keywords import LoadKeywords
from llama_magic.magics._options import FETCH, LOAD, MODES, VERBS, Option
from llama_magic.magics._parse import parse_cell, parse_line
from llama_magic.model.options import StructuredOptions
from llama_magic.request.stages import SamplingOptions

ROOT = Path(__file__).parent


def _of(options: type) -> set[str]:
    """Return the names of a `TypedDict`, inherited ones too."""
    keys: frozenset[str] = options.__optional_keys__ | options.__required_keys__
    return set(keys)


_LOAD = "model/test_model_options.py::test_a_load_option_is_that_of_llama_cpp"
_MEMORY = "model/test_model_options.py::test_options_of_memory_have_their_effect"
_CHAIN = "engine/test_engine_sampler.py::test_same_seed_same_token_as_the_c_api"
_CONNECT = "remote/test_remote_cells.py::test_every_option_of_connect_works"
_SHELL = "magics/test_magics_shell.py::"
_VERBS = "magics/test_magics_verbs.py::"
_INSPECT = "magics/test_magics_inspect.py::"
_CHAT = "magics/test_magics_chat.py::"
_TOOLS = "magics/test_magics_tools.py::"
_EXPERIMENTS = "magics/test_magics_experiments.py::"
_ANSWERS = "model/test_model_answers.py::"

# What an option is called in Python (or its flag, where it is none there) -> the test in which it works.
WORKS: dict[str, str] = {
    **dict.fromkeys(_of(LoadKeywords), _LOAD),
    **dict.fromkeys(_of(SamplingOptions), _CHAIN),
    "batch": _MEMORY,
    "mlock": _MEMORY,
    "formatter": "model/test_model_options.py::test_a_name_and_a_formatter_are_kept",
    "name": "model/test_model_options.py::test_a_name_and_a_formatter_are_kept",
    "draft": "model/test_model_draft.py::test_a_model_that_drafts_for_itself_is_always_right",
    "lora": "model/test_model_lora.py::test_an_adapter_changes_what_it_changes_in_llama_cpp",
    "profile": "model/test_model_architectures.py::test_each_profile_has_the_window_that_was_asked_for",
    "logit_bias": "engine/test_engine_sampler.py::test_logit_bias_moves_and_forbids",
    "sha256": "sources/test_sources_local.py::test_a_digest_is_checked_on_local_files_too",
    "revision": "sources/test_sources_hub.py::test_revisions_come_from_the_source_or_the_option",
    "offline": "sources/test_sources_hub.py::test_a_cached_file_is_used_when_the_hub_is_out_of_reach",
    "dry_run": "model/test_model_loading.py::test_dry_run_loads_nothing",
    "all": _VERBS + "test_a_variable_of_the_user_keeps_a_closed_model",
    "tensors": _INSPECT + "test_a_part_is_shown_alone",
    "tokenizer": _INSPECT + "test_a_part_is_shown_alone",
    "template": _INSPECT + "test_a_part_is_shown_alone",
    "prompt": _CHAT + "test_the_prompt_that_was_sent_can_be_seen",
    "branch": _CHAT + "test_a_rerun_replaces_its_own_turn_and_keeps_the_later_ones_as_a_branch",
    "max_tokens": "model/test_model_counts.py::test_guard_counts_exactly",
    "seed": _CHAIN,
    "stop": "test_testing.py::test_stop_texts_and_limits_are_real",
    "logprobs": "engine/test_engine_sampler.py::test_logprobs_are_a_log_softmax_of_raw_logits",
    "n": _SHELL + "test_samples_are_a_list",
    "overflow": "model/test_model_counts.py::test_overflow_modes_say_what_was_dropped",
    "reuse": "model/promise.py::reuse",
    "min_tokens": "model/test_model_least.py::test_an_answer_has_its_least_tokens",
    "ignore_eos": "model/promise.py::edge",
    "sampling": "model/test_model_options.py::test_sampling_as_one_object_is_its_keywords",
    "pressure": "model/test_model_refusals.py::test_pressure_says_where_the_model_wanted_something_else",
    "grammar": "model/test_model_structured.py::test_structured_kinds",
    "regex": "model/test_model_structured.py::test_structured_kinds",
    "choices": "model/test_model_structured.py::test_structured_kinds",
    "schema": "magics/test_magics_structured.py::test_structured_passes_the_schema_and_keeps_failures",
    "show_schema": "model/test_model_batches.py::test_the_schema_can_be_read",
    "retries": "model/test_model_structured.py::test_retries_tell_what_was_wrong",
    "thinking": "model/test_model_thinking.py::test_thinking_first",
    "instruct": _SHELL + "test_options_reach_the_api",
    "system": _SHELL + "test_options_reach_the_api",
    "session": _CHAT + "test_sessions_are_apart",
    "new": _CHAT + "test_new_starts_afresh_and_keeps_the_old",
    "model": _SHELL + "test_a_model_is_chosen_by_name",
    "out": _SHELL + "test_quiet_prints_nothing",
    "quiet": _SHELL + "test_quiet_prints_nothing",
    "format": _SHELL + "test_json_format_shows_the_receipt",
    "tag": "model/test_model_batches.py::test_a_receipt_has_what_an_equal_answer_needs",
    "speculate": "model/test_model_speculation.py::test_a_copy_is_guessed_and_is_what_plain_decoding_gives",
    "drop_thinking": _CHAT + "test_thinking_of_earlier_turns_can_be_left_out",
    "only": "magics/test_magics_replay.py::test_only_what_was_recorded_is_answered",
    "grep": "magics/test_magics_records.py::test_the_history_can_be_searched_and_saved",
    "prefill": "model/test_model_prefill.py::test_a_beginning_is_part_of_the_answer",
    "key_env": _CONNECT,
    "stall": _CONNECT,
    "probing": _CONNECT,
    "timeout": "model/test_model_async.py::test_an_answer_ends_when_its_time_is_up",
    "host": "serving/test_serving_magics.py::test_what_a_line_cannot_serve_is_refused",
    "port": "serving/test_serving_magics.py::test_a_line_serves_until_a_line_stops_it",
    "tools": _TOOLS + "test_the_loop_is_shown_and_every_turn_is_in_the_chat",
    "tools_auto": _TOOLS + "test_nothing_runs_unseen_unless_asked",
    **dict.fromkeys(("tool_choice", "tool_rounds", "tools_as_text"), _TOOLS + "test_options_reach_the_call"),
    "raw": _SHELL + "test_variables_fill_the_body_and_their_spans_travel",
    **dict.fromkeys(
        ("over", "models", "score", "on_error"), _EXPERIMENTS + "test_options_reach_the_experiment"
    ),
    "record": _EXPERIMENTS + "test_a_record_goes_on",
    **dict.fromkeys(("options", "abstain_below", "end"), _EXPERIMENTS + "test_decide_weighs_its_options"),
    "remove": "magics/test_magics_aliases.py::test_aliases_are_listed_shown_completed_and_taken_away",
    **dict.fromkeys(
        ("n_prompt", "n_gen", "repetitions"),
        "experiments/test_experiments_bench.py::test_the_line_measures_a_named_model",
    ),
    "live": "browser/test_browser_tokens.py::test_strip_and_count_follow_the_typing",
    "stream": "test_testing.py::test_structured_answers_pass_the_real_mask",
    "progress": "model/test_model_measuring.py::test_embed_says_how_far_it_is",
    "told": "model/test_model_measuring.py::test_long_works_take_a_time",
    "normalize": "model/test_model_embed.py::test_embeddings_are_the_mean_over_the_text",
    "parse_special": "model/test_model_counts.py::test_detokenize_is_the_inverse_of_tokenize",
    "special": "model/test_model_counts.py::test_control_tokens_can_be_left_out_of_a_text",
    "template_variables": "model/test_model_prefill.py::test_an_empty_beginning_is_no_beginning",
    "parallel_tool_calls": "model/test_model_tools.py::test_one_call_or_several",
    "lark": "structured/test_structured_grammars.py::test_lark",
    "sequence": "microscope/test_microscope_kv.py::test_a_fork_is_kept_whatever_comes_after",
    **dict.fromkeys(
        ("mode", "variables"), "experiments/test_experiments_map.py::test_prompts_of_every_kind_are_filled"
    ),
    "rows": "experiments/test_experiments_sweep.py::test_names_are_found_where_it_is_called",
    "names": "experiments/test_experiments_rerun.py::test_where_two_answers_part",
    "on": "experiments/test_experiments_changes.py::test_rows_that_are_the_same_by_a_column",
    "machine": "sources/test_sources_compare.py::test_a_window_that_is_too_long_is_said",
    "hosts": "serving/test_serving_guard.py::test_only_our_own_names_are_answered",
    "cors": "serving/test_serving_connections.py::test_each_header_of_an_origin_counts",
    "limits": "serving/test_serving_connections.py::test_a_head_that_never_ends_is_given_up",
}
_SAMPLE = {
    "int": "1", "float": "0.5", "count": "1", "positive": "2", "seed": "3", "text": "a", "escaped": "a",
    "template": "a", "regex": "a", "grammar": "a", "schema": "a", "stages": "top_k",
    "name": "r", "layers": "1", "choices": "a|b", "bias": "3=1", "tools": "f,g",
    "model": "a", "models": "a,b", "axes": "seed=1", "score": "x",
}  # fmt: skip


def _magic_options() -> dict[str, tuple[str, Option]]:
    """Return each option with a line that takes it."""
    found: dict[str, tuple[str, Option]] = {}
    for verb in VERBS.values():
        for option in verb.options:
            words = " w" * verb.least
            found.setdefault(f"{verb.name} {option.flags[-1]}", (f"{verb.name}{words}", option))
    for mode in MODES.values():
        for option in mode.options:
            line = f"%%{mode.name}{' w' * mode.least}"
            found.setdefault(f"%%{mode.name} {option.flags[-1]}", (line, option))
    return found


@cache
def texts_of(file: str) -> dict[str, str]:
    """Return the functions of a test file, each with its own text and that of what no other test is."""
    text = (ROOT / file).read_text("utf-8")
    body = ast.parse(text).body
    functions = [node for node in body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    tests = [node for node in functions if node.name.startswith("test_")]
    beside = "\n".join(ast.get_source_segment(text, node) or "" for node in body if node not in tests)
    whole = {node.name: beside for node in functions}
    for node in tests:
        parts = [ast.get_source_segment(text, part) or "" for part in (node, *node.decorator_list)]
        whole[node.name] = "\n".join([*parts, beside])
    return whole


def _parameters() -> set[str]:
    """Return the names of what can be left out of the API's calls, but for what a call is mainly about."""
    functions = [getattr(lm, name) for name in lm.__all__]
    functions += [value for name, value in vars(lm.Model).items() if not name.startswith("_")]
    calls = [inspect.signature(call) for call in functions if inspect.isfunction(call)]
    return {
        name
        for call in calls
        for at, (name, given) in enumerate(item for item in call.parameters.items() if item[0] != "self")
        if given.default is not given.empty and (at or given.kind is given.KEYWORD_ONLY)
    }


def _keywords() -> list[str]:
    """Return the name of every option there is, in Python and in the magics."""
    names = {option.key for _, option in _magic_options().values()} | {o.key for o in (*LOAD, *FETCH)}
    return sorted(names | _of(LoadKeywords) | _of(StructuredOptions) | _parameters())


@pytest.mark.parametrize("keyword", _keywords())
def test_there_is_a_test_in_which_it_works(keyword: str) -> None:
    """The test that is listed exists, and it or what its file has beside tests speaks of the option."""
    assert keyword in WORKS, f"{keyword} has no test in which it works"
    file, _, name = WORKS[keyword].partition("::")
    assert name in texts_of(file), f"{keyword}: there is no {WORKS[keyword]}"
    flags = [
        flag for _, option in _magic_options().values() if option.key == keyword for flag in option.flags
    ]
    words = "|".join(rf"(?<![\w-]){re.escape(flag)}(?![\w-])" for flag in flags)
    assert re.search(rf'"{keyword}"|\b{keyword}=' + (f"|{words}" if words else ""), texts_of(file)[name])


@pytest.mark.parametrize("which", _magic_options())
def test_each_flag_of_the_magics_sets_its_keyword(which: str) -> None:
    """`%llama VERB --flag value` and `%%llama mode --flag value`, long and short, set the one keyword."""
    head, option = _magic_options()[which]
    value = option.choices[0] if option.choices else _SAMPLE.get(option.kind, "")
    for flag in option.flags:
        words = f"{flag} {value}".rstrip() if option.takes_value else flag
        if head.startswith("%%"):
            command = parse_cell(f"{head[2:]} {words}")
        else:
            verb, _, rest = head.partition(" ")
            command = parse_line(f"{verb} {words} {rest or ('a text' if VERBS[verb].text else '')}".strip())
        assert option.key in command.options
        if not option.takes_value:
            assert command.options[option.key] is option.value
