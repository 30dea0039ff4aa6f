-- Grants: which role may call which function. All other functions are revoked.

revoke execute on all functions in schema private from public;

-- Functions for front ends, which PostgREST exposes. (Supabase grants every new function in `public` to all its roles.)
do $$
declare
  v_function regprocedure;
begin
  for v_function in select oid from pg_proc where pronamespace = 'public'::regnamespace and proname in (
    'ensure_personal_organisation', 'create_organisation', 'remove_member', 'create_api_key', 'revoke_api_key', 'invite', 'revoke_invitation',
    'accept_invitation', 'read_invitation', 'delete_document', 'create_schema', 'update_schema', 'delete_schema', 'delete_thread',
    'create_tag', 'update_tag', 'delete_tag', 'tag_document', 'rename_document', 'create_prompt', 'update_prompt',
    'delete_prompt', 'delete_extraction', 'delete_run', 'save_extraction_fields', 'update_extraction_field',
    'update_extraction_fields', 'update_field', 'remove_extraction_field', 'identify_document', 'complete_extraction',
    'restore_extraction', 'unlock_extraction_field', 'decide_extraction_proposals', 'decide_auto_creation',
    'delete_organisation', 'deleted_organisation', 'delete_account', 'delete_stack', 'remove_stack_document', 'delete_saved_view', 'assign_document', 'delete_comment',
    'delete_webhook', 'test_webhook', 'set_max_error', 'set_upload_rules', 'delete_source'
  ) loop
    execute format('revoke execute on function %s from public, anon, authenticated', v_function);
    execute format('grant execute on function %s to authenticated', v_function);
  end loop;
end $$;

-- Functions that policies, other functions and the service call as a member.
grant execute on function
  private.is_service, private.require, private.check_found, private.is_agent, private.this_run, private.this_call,
  private.new_id, private.my_org_ids, private.my_writable_org_ids, private.my_owned_org_ids, private.only_organisation, private.resolve_organisation,
  private.role_of, private.current_user_id, private.check_owner, private.user_of, private.address_of,
  private.clear_pages, private.count_enclosed, private.this_root_run, private.save_thread_state, private.is_name,
  private.follow_schema, private.schema_revid_of, private.schema_to_extract, private.count_references_to_schema, private.count_references_to_prompt, private.count_references_to_tag,
  private.fence, private.has_active_run, private.append_event, private.delta_channel, private.notify_deltas,
  private.record_call, private.claim_call, private.finish_call, private.cost_of_run, private.spent_this_month,
  private.lock_credit, private.report_full_quota, private.count_active_runs, private.is_blocked, private.runs_ahead, private.waits_behind,
  private.is_budget_spent, private.is_credit_spent, private.check_capacity, private.charge, private.await_approval,
  private.show_updated_call, private.approval_refusal_reason, private.approval_refusal_reason_for,
  private.decided_by_others, private.start_decision, private.approve_later_calls, private.resume_run, private.detach_run,
  private.detach_dead_worker, private.has_open_children, private.await_runs, private.tree_of_run, private.cancel_run,
  private.queue_unlocked_copy, private.record_reading, private.child_name, private.nodes, private.changes, private.is_leaf,
  private.check_json, private.checked_path, private.set_at_path, private.path_name, private.merge, private.entries_under,
  private.approving_user, private.message_author, private.paths_allowed_by_message, private.fields_at, private.binding_locks,
  private.blocked_paths, private.moved_items, private.locked_extraction, private.check_is_caller, private.nested_scores, private.write_fields, private.is_proposed,
  private.record_second_reading,
  private.compare_schemas, private.review_counts, private.differ, private.change_data, private.record_problems, private.search,
  private.count_unindexed_documents, private.review_figures, private.search_stems, private.search_nearest, private.count_unembedded_documents, private.has_vectors
  to authenticated;

-- Functions that the service calls without a user.
grant execute on function
  private.is_service, private.my_org_ids, private.my_writable_org_ids, private.my_owned_org_ids, private.resolve_organisation,
  private.use_api_key, private.record_api_key_use, private.scope_of_document, private.fail_document, private.register_pending_files,
  private.files_to_delete, private.unregister_deleted_files, private.scope_of_run, private.count_waiting_runs, private.fail_run,
  private.notify, private.claim_job, private.search_source, private.search_words, private.write_search_chunks,
  private.abandon_indexing, private.search_stems, private.use_embedder, private.lease_document_for_embedding,
  private.chunks_without_vectors, private.write_search_vectors, private.has_vectors, private.delete_old_run_records,
  private.clear_organisations, private.record_problems, private.extractions_to_check,
  private.schemas_to_count, private.update_required_fields, private.review_figures, private.store_review_policy,
  private.publish_changes, private.lease_deliveries, private.record_delivery,
  private.lease_sources, private.new_objects, private.record_objects, private.finish_source,
  private.record_source_failure, private.due_source_failure,
  private.delete_old_changes
  to fieldmark_app;

-- The function of the person who runs the service.
grant execute on function private.administration to fieldmark_admin;
