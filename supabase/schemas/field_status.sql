-- What a field's status is, and why. The only place that decides it: all else reads the rows of public.fields.

-- The first case that holds counts. A person has to look at fields that are `needs_review` or `unclear`.
--   p_kind      boolean; blank: there is no value; container: an object or a list, whose values have statuses of their own. A list
--               item that may be no row of its own, or a list without some of its rows, is one field to look at
--   p_state     of the evidence: found, message (in a person's message), not_found, blank
--   p_doubt     why the evidence is unsure, if it says so
--   p_problem   missing, breaks_schema or breaks_rule: found by the service, which knows the schema
--   p_min       the confidence from which the value is accepted without a look; above 1: never
--   p_is_audit  the value was drawn for an audit, and no one has looked at it
--   p_accepted  the reason that a person knew when confirming the value or reviewing the extraction
-- A field is verified if the document or a person vouches for its value, whatever else is to be looked at: figures count it.
create function private.field_status(
  p_kind text, p_state text, p_confidence numeric, p_doubt text, p_is_locked boolean, p_is_proposed boolean,
  p_problem text, p_min numeric, p_is_audit boolean, p_accepted text
) returns table (status text, reason text, is_verified boolean) language sql immutable set search_path = pg_catalog, pg_temp as $$
  select case when said.status in ('needs_review', 'unclear') and said.reason = p_accepted then 'accepted' else said.status end,
    said.reason,
    p_kind = 'container' or p_is_locked or coalesce(p_state in ('found', 'message'), false)
      or coalesce(said.reason = p_accepted, false)
  from (select case
      when p_is_proposed and p_kind <> 'container' then 'needs_review'
      when p_is_locked and p_kind = 'blank' then 'blank'
      when p_problem is not null then 'needs_review'
      when p_is_locked then 'confirmed'
      when p_kind = 'container' then case when p_confidence < 0.5 then 'unclear' else 'found' end
      when p_kind = 'blank' then case p_state when 'blank' then 'blank' else 'not_written' end
      when p_state is null or p_state not in ('found', 'message') then 'needs_review'
      when p_confidence < least_needed or p_is_audit then 'unclear'
      else 'found' end as status, case
      when p_is_proposed and p_kind <> 'container' then 'proposal'
      when p_is_locked and p_kind = 'blank' then 'person'
      when p_problem is not null then p_problem
      when p_is_locked then case when p_state is distinct from 'found' then 'person' end
      when p_kind = 'container' then case when p_confidence < 0.5 then coalesce(p_doubt, 'low_confidence') end
      when p_kind = 'blank' then null
      when p_state is null or p_state not in ('found', 'message') then 'not_found'
      when p_confidence < least_needed then
        coalesce(p_doubt, case
          when p_confidence < 0.5 then 'low_confidence' when p_min > 1 then 'often_corrected' else 'below_threshold' end)
      when p_is_audit then 'audit'
      when p_state = 'message' then 'message' end as reason
    -- The list item of a value with the doubt `row` is what a person is asked. A yes or no never has more than 0.7: only its
    -- words are printed; audits show whether that is enough.
    from (select case
      when p_min <= 1 and (p_doubt = 'row' or p_kind = 'boolean') then 0.5
      else greatest(p_min, 0.5) end) as n (least_needed)) as said
$$;
