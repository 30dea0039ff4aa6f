-- Grants: who may call which function. Nobody may call any other.

revoke execute on all functions in schema private from public;

-- Functions of a front end, which PostgREST exposes. (Supabase grants every new function in `public` to all its roles.)
do $$
declare
  v_function regprocedure;
begin
  for v_function in select oid from pg_proc where pronamespace = 'public'::regnamespace and proname in (
    'enter', 'create_organisation', 'remove_member', 'create_api_key', 'revoke_api_key', 'invite', 'revoke_invitation',
    'accept_invitation', 'delete_document', 'create_schema', 'update_schema', 'delete_schema', 'delete_thread',
    'create_tag', 'update_tag', 'delete_tag', 'tag_document', 'rename_document', 'create_prompt', 'update_prompt',
    'delete_prompt', 'delete_extraction', 'delete_run', 'save_extraction_fields', 'update_extraction_field',
    'update_extraction_fields', 'remove_extraction_field', 'identify_document', 'complete_extraction',
    'restore_extraction', 'unlock_extraction_field', 'decide_extraction_proposals', 'decide_auto_creation',
    'delete_organisation'
  ) loop
    execute format('revoke execute on function %s from public, anon, authenticated', v_function);
    execute format('grant execute on function %s to authenticated', v_function);
  end loop;
end $$;

-- What these functions, policies and the service call in a member's name.
grant execute on function
  private.is_service, private.check_that, private.check_found, private.is_agent, private.this_run, private.this_call,
  private.new_id, private.my_org_ids, private.my_writable_org_ids, private.my_owned_org_ids, private.enter,
  private.role_of, private.this_person, private.check_owner, private.person_of, private.address_of,
  private.clear_pages, private.count_enclosed, private.this_root_run, private.keep_in_thread, private.is_name,
  private.follow_schema, private.references_to_schema, private.references_to_prompt, private.references_to_tag,
  private.fence, private.is_worked_on, private.append_event, private.delta_channel, private.tell_deltas,
  private.enter_call, private.claim_call, private.finish_call, private.cost_of_run, private.spent_this_month,
  private.lock_credit, private.at_work, private.is_blocked, private.runs_ahead, private.waits_behind,
  private.is_budget_spent, private.is_credit_spent, private.find_room, private.charge, private.await_approval,
  private.show_again, private.is_left_behind, private.why_not_decide, private.why_not_decide_of,
  private.decided_by_others, private.begin_decision, private.admit_further, private.resume_run, private.detach_run,
  private.disown_run, private.has_open_children, private.await_runs, private.tree_of_run, private.cancel_run,
  private.read_unlocked, private.record_reading, private.child_name, private.nodes, private.changes, private.is_leaf,
  private.check_json, private.checked_path, private.put, private.name_at, private.merge, private.at_or_below,
  private.person_behind, private.speaker, private.spoken_for, private.author_of, private.fields_at, private.binding,
  private.held, private.shifted, private.locked_extraction, private.write_fields, private.is_proposed,
  private.current_extraction, private.folded, private.is_blank, private.search, private.search_behind,
  private.search_stems, private.search_nearest, private.vectors_behind, private.has_vectors
  to authenticated;

-- What the service calls as nobody's user.
grant execute on function
  private.is_service, private.my_org_ids, private.my_writable_org_ids, private.my_owned_org_ids, private.enter,
  private.use_api_key, private.note_api_key, private.scope_of_document, private.fail_document, private.expect_files,
  private.files_to_delete, private.files_deleted, private.scope_of_run, private.waiting_runs, private.fail_run,
  private.tell, private.claim_job, private.search_source, private.search_words, private.write_search_pieces,
  private.give_up_indexing, private.search_stems, private.use_embedder, private.take_vectors_due,
  private.pieces_without_vectors, private.write_search_vectors, private.has_vectors, private.forget_runs,
  private.clear_organisations
  to fieldmark_app;
