"""The tests of external engines, run with the embedded engine.

All but one: here an answer in one pass that is held to a schema is held from its first token, so it is not thought
about before, and what it says is of lesser worth. test_two_pass.py has that promise.
"""

from tests.integration.real_engines.test_engines import (
    test_a_client_that_leaves_frees_the_engine,
    test_a_conversation_contains_its_history,
    test_a_prompt_beyond_the_context_is_refused_by_name,
    test_a_question_gets_its_answer_and_the_thought_before_it,
    test_a_schema_binds_an_answer_that_would_be_another,
    test_a_tool_is_called_and_its_result_used,
    test_an_answer_cut_at_the_token_limit_is_incomplete,
    test_an_unknown_model_is_not_found,
    test_characters_that_span_tokens_arrive_whole,
    test_line_breaks_and_indents_arrive_as_written,
    test_the_tool_that_is_forced_is_called_though_another_would_fit,
    test_thinking_can_be_switched_off,
    test_two_tools_called_at_once_keep_their_results_apart,
    test_usage_counts_input_and_output_tokens,
)

__all__ = [
    "test_a_client_that_leaves_frees_the_engine",
    "test_a_conversation_contains_its_history",
    "test_a_prompt_beyond_the_context_is_refused_by_name",
    "test_a_question_gets_its_answer_and_the_thought_before_it",
    "test_a_schema_binds_an_answer_that_would_be_another",
    "test_a_tool_is_called_and_its_result_used",
    "test_an_answer_cut_at_the_token_limit_is_incomplete",
    "test_an_unknown_model_is_not_found",
    "test_characters_that_span_tokens_arrive_whole",
    "test_line_breaks_and_indents_arrive_as_written",
    "test_the_tool_that_is_forced_is_called_though_another_would_fit",
    "test_thinking_can_be_switched_off",
    "test_two_tools_called_at_once_keep_their_results_apart",
    "test_usage_counts_input_and_output_tokens",
]
