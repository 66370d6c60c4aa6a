"""The 75 cases that people hit, each with the test of its kind; one that is renamed or lost is named."""

from __future__ import annotations

import pytest
from test_options import texts_of

_WRITTEN, _SUITE = "structured/test_structured_written.py::", "structured/test_structured_suite.py::"
_SHORT, _SETS = "structured/test_structured_short.py::", "structured/test_structured_sets.py::"
_BATCHES, _FITTING = "model/test_model_batches.py::", "model/test_model_fitting.py::"
_FILLED, _FILES = "model/test_model_interpolate.py::", "model/test_model_files.py::"
_ARCHITECTURES, _LOADING = "model/test_model_architectures.py::", "model/test_model_loading.py::"
_LORA, _ENDINGS = "model/test_model_lora.py::", "model/test_model_endings.py::"
_GGUF, _READER = "formatters/test_formatters_gguf.py::", "formatters/test_formatters_reader.py::"
_OPTIONS, _VALIDATE = "magics/test_magics_options.py::", "gguf/test_gguf_validate.py::"

# Where the case was found -> the test of its kind, and a word of the case that stands in that test's file.
FOUND: dict[str, tuple[str, str]] = {
    "google-gemini/cookbook#1288": (_WRITTEN + "test_numbers_end", "float"),
    "local:number-cut-at-max-tokens": (_BATCHES + "test_a_cut_number_is_no_answer", "max_tokens=limit"),
    "ggml-org/llama.cpp#7789": (_SETS + "test_mask_and_check_agree", "uniqueItems"),
    "ollama/ollama#8531": (
        _FITTING + "test_drop_oldest_keeps_instructions_wherever_they_stand",
        "drop-oldest",
    ),
    "ollama/ollama#3176": (_FITTING + "test_the_default_reserve_is_a_promise", "truncate-prompt"),
    "nbramia/LifeOS#568": (_READER + "test_a_constrained_answer_is_not_read_for_marks", "<think>"),
    "ggml-org/llama.cpp#27661": (_READER + "test_a_mark_that_is_only_spoken_of", "</think>"),
    "pallets/jinja#1554": (_FILLED + "test_what_has_no_text_is_refused", "order.items"),
    "lmstudio-ai/lmstudio-bug-tracker#1579": (
        _OPTIONS + "test_variables_stand_on_the_line_in_every_option",
        "--system",
    ),
    "ploomber/jupysql#941": (
        _OPTIONS + "test_variables_stand_on_the_line_in_every_option",
        "--choices",
    ),
    "local:len-in-braces": (_FILLED + "test_pythons_functions_work", "len(text)"),
    "pydantic/pydantic-core#1688": (
        _WRITTEN + "test_a_decimal_keeps_its_digits",
        "12345678901234567",
    ),
    "pydantic/pydantic-ai#8011": (
        _WRITTEN + "test_what_pydantic_checks_is_what_is_written",
        "IPv4Network",
    ),
    "AnswerDotAI/toolslm#49": (_WRITTEN + "test_what_pydantic_checks_is_what_is_written", "Decimal"),
    "simonw/llm#790": (_SHORT + "test_short_forms", '"name"'),
    "tree-sitter/tree-sitter#652": (
        "formatters/test_formatters_families.py::test_a_template_file_in_any_unicode",
        "utf-8-sig",
    ),
    "meta-models/meta-oss-cookbook#36": (
        "sources/test_sources_compare.py::test_a_quant_beside_its_head_is_one_model",
        "mtp-",
    ),
    "computationalmodelling/nbval#12": (
        _OPTIONS + "test_comments_for_notebook_tools_are_not_sent",
        "NBVAL_IGNORE_OUTPUT",
    ),
    "LostRuins/koboldcpp#935": (_SHORT + "test_a_wrong_regex", "unterminated"),
    "ollama/ollama#8543": (_SUITE + "test_keywords_without_effect", "propertys"),
    "local:option-hints": (
        "magics/test_magics_other_names.py::test_a_cell_knows_what_others_call_its_options",
        "--temp",
    ),
    "ggml-org/llama.cpp#11536": (
        "model/test_model_prefill.py::test_an_answer_goes_on_from_the_last_message",
        "assistant",
    ),
    "local:useless-overflow-advice": (
        "model/test_model_counts.py::test_cures_name_what_can_be_shortened",
        "overflow",
    ),
    "local:speed-of-forced-tokens": (_ENDINGS + "test_speed_is_that_of_drawn_tokens", "tok/s"),
    "huggingface/transformers#12549": (_FILES + "test_a_model_says_that_it_cannot_be_copied", "deepcopy"),
    "trial:deadlock:25": ("model/test_model_finalizers.py::test_nothing_hangs", "finalizers"),
    "trial:two-models:26": (
        "engine/test_engine_compute.py::test_second_model_brings_no_openmp_threads",
        "OpenMP",
    ),
    "trial:fork:27": (
        "model/test_model_lifetime.py::test_forked_child_loads_a_model_of_its_own",
        "fork",
    ),
    "trial:kv:28": (
        _ARCHITECTURES + "test_a_sequence_is_not_taken_back_under_other_weights",
        "kv_restore",
    ),
    "trial:template-hang:29": (
        "formatters/test_formatters_sandbox.py::test_every_call_with_hostile_sizes_is_bounded",
        "template_calls",
    ),
    "trial:crash-check:30": (
        "model/test_model_crash_check.py::test_a_child_killed_from_outside_costs_one_load",
        "SIGKILL",
    ),
    "trial:mmap:31": (_FILES + "test_a_mapped_file_written_over_is_noticed_before_a_call", "truncate"),
    "trial:download:32": ("sources/test_sources_url.py::test_load_mends_a_short_download", "- 5000"),
    "trial:interrupt:33": (
        "magics/test_magics_interrupts.py::test_a_verb_that_is_interrupted",
        "KeyboardInterrupt",
    ),
    "trial:saved-size:34": (
        "session/test_session_saved.py::test_an_output_is_as_long_as_its_turn",
        "120",
    ),
    "trial:cache-folder:35": (
        "model/test_model_crash_check.py::test_a_cache_folder_that_cannot_be_made_refuses_no_local_file",
        "LLAMA_MAGIC_CACHE",
    ),
    "trial:foreign-errors:36": (
        "sources/test_sources_foreign.py::test_no_public_entry_raises_anything_foreign",
        "LlamaMagicError",
    ),
    "trial:terminal-escape:37": (
        _FILES + "test_no_error_carries_a_control_from_a_file_name",
        "\\x1b",
    ),
    "trial:long-input:38": (
        _FITTING + "test_a_prompt_that_cannot_fit_is_refused_by_arithmetic",
        "20_000_000",
    ),
    "trial:json-schema:39": (_SUITE + "test_meaning_of_a_draft", "additionalItems"),
    "trial:json-schema:40": (_SUITE + "test_meaning_of_a_draft", "$dynamicRef"),
    "trial:json-schema:41": (_SUITE + "test_meaning_of_a_draft", "2**64 - 1"),
    "trial:json-schema:42": (_SUITE + "test_meaning_of_a_draft", "1.0"),
    "trial:json-schema:43": (_SUITE + "test_any_order_is_kept_as_promised", "any_order"),
    "trial:structured-batch:44": (_BATCHES + "test_a_bad_row_costs_no_other", "completions"),
    "trial:structured-batch:45": (_BATCHES + "test_an_interrupt_keeps_finished_rows", "interrupted"),
    "trial:structured-batch:46": (_BATCHES + "test_times_of_rows", "total_s"),
    "trial:pickle:47": (_BATCHES + "test_constrained_answers_are_data", "pickle"),
    "trial:terminal:48": (
        _OPTIONS + "test_a_cell_typed_at_a_prompt_ends_with_a_blank_line",
        "blank line",
    ),
    "trial:gauge:49": ("display/test_display_saved.py::test_samples_have_the_window_each", "free"),
    "trial:gauge:50": ("display/test_display_saved.py::test_the_ending_is_what_ended_it", "stop text"),
    "trial:gauge:51": ("display/test_display_views.py::test_what_ended_an_answer_is_said", "full"),
    "trial:receipt:52": (_BATCHES + "test_a_receipt_has_what_an_equal_answer_needs", "retries"),
    "trial:silent-drop:53": (_GGUF + "test_tools_are_never_dropped_in_silence", "tools"),
    "trial:silent-drop:54": (
        "microscope/test_microscope_advice.py::test_an_answer_says_which_of_the_options_did_nothing",
        "adaptive_target",
    ),
    "trial:logit-bias:55": (
        "engine/test_engine_sampler.py::test_a_bias_on_several_tokens_is_refused_with_its_pieces",
        "logit_bias",
    ),
    "trial:seeds:56": (_BATCHES + "test_rows_of_a_seeded_batch_draw_their_own_numbers", "seed"),
    "trial:default-model:57": (
        "session/test_session_state.py::test_load_with_nothing_is_the_current_model",
        "load()",
    ),
    "trial:templates:58": (_GGUF + "test_text_and_tool_calls_as_transformers", "Let me see."),
    "trial:templates:59": (
        "model/test_model_marks.py::test_messages_cannot_write_user_defined_marks",
        "tool▁calls▁begin",
    ),
    "trial:templates:60": (_GGUF + "test_parts_as_transformers", '"type": "text"'),
    "trial:templates:61": (_GGUF + "test_a_go_template_is_named", "{{ if .System }}"),
    "trial:gguf:62": (_VALIDATE + "test_advice_is_what_can_help", "4294967295"),
    "trial:stop:63": ("model/test_model_refusals.py::test_options", '"stop": ""'),
    "trial:limits:64": (_ARCHITECTURES + "test_values_without_sense_are_named", "threads=200"),
    "trial:lora:65": (_LORA + "test_an_adapter_changes_what_it_changes_in_llama_cpp", "lora"),
    "trial:lora:66": (_LORA + "test_a_replaced_file_is_another_adapter", "os.replace"),
    "trial:architectures:67": (
        _ARCHITECTURES + "test_unseeded_samples_end_and_read_each_prompt_once",
        "n=",
    ),
    "trial:architectures:68": (
        _ARCHITECTURES + "test_embedding_models_embed_as_llama_cpp_does",
        "bert",
    ),
    "trial:architectures:69": (_ARCHITECTURES + "test_memory_is_foretold_within_a_tenth", "promise.memory"),
    "trial:architectures:70": (
        _ARCHITECTURES + "test_a_window_beyond_the_positions_of_a_model_is_refused",
        "gpt2",
    ),
    "trial:profile:71": (
        _ARCHITECTURES + "test_each_profile_has_the_window_that_was_asked_for",
        "batch",
    ),
    "trial:split:72": (_VALIDATE + "test_a_cut_part_is_the_one_that_is_named", "-of-00002"),
    "trial:formatter:73": (_ARCHITECTURES + "test_an_edited_template_is_another_formatter", "auto"),
    "trial:thinking:74": (
        "model/test_model_thinking.py::test_a_thought_that_took_all_tokens",
        "took all 12 tokens",
    ),
}


@pytest.mark.parametrize("case", FOUND)
def test_there_is_a_test_of_its_kind(case: str) -> None:
    """The test that is listed exists, and it or what its file has beside tests speaks of the case."""
    (file, name), word = FOUND[case][0].split("::"), FOUND[case][1]
    assert name in texts_of(file), f"{file} has no {name}"
    assert word in texts_of(file)[name], f"{name} does not speak of {word}"


def test_all_are_listed() -> None:
    """75 were found, 50 of them by trials, which are numbered."""
    assert len(FOUND) == 75
    tried = sorted(int(case.rsplit(":", 1)[1]) for case in FOUND if case.startswith("trial:"))
    assert tried == list(range(25, 75))
