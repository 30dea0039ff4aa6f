-- API keys: shown once, looked up by hash. The table is in organisations.sql because policies read it.

-- Creates a key and returns {"id", "key"}. Only users create keys. An organisation has at most 200 active keys.
create function public.create_api_key(
  p_org_id uuid, p_name text, p_scopes text[], p_expires_at timestamptz default null
) returns jsonb language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_scopes text[] := array(select distinct scope from unnest(p_scopes) as scope order by scope);
  v_unknown text;
  v_prefix text := 'fm_' || left(replace(gen_random_uuid()::text, '-', ''), 8);
  -- 256 bits of three random numbers of 122 bits each.
  v_key text := v_prefix || '_' || encode(
    sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())), 'hex');
  v_id uuid;
begin
  perform private.current_user_id();
  -- Locks the organisation, so that a member who is being removed cannot create a key meanwhile.
  perform from public.organisations
  where id = p_org_id and id in (select private.my_org_ids()) for no key update;
  perform private.check_found(p_org_id in (select private.my_org_ids()), 'organisation');
  perform private.require(
    p_org_id in (select private.my_writable_org_ids()), 'Viewers cannot create API keys. Ask an owner to change your role.', 'PT403', 'read_only');
  perform private.require(
    char_length(p_name) between 1 and 200, 'The name of an API key must have 1 to 200 characters.');
  perform private.require(cardinality(v_scopes) > 0, 'An API key needs at least one scope.');
  select scope into v_unknown from unnest(v_scopes) as scope
  where scope is null or scope not in (
    'documents:read', 'documents:write', 'documents:add', 'extractions:read', 'extractions:write', 'schemas:read', 'schemas:write',
    'runs:read', 'runs:write', 'runs:approve', 'usage:read', 'members:read', 'members:write', 'keys:read', 'keys:write',
    'changes:read', 'webhooks:write')
  limit 1;
  perform private.require(not found, format('Unknown scope: %s.', coalesce(left(v_unknown, 50), 'null')));
  perform private.require(coalesce(p_expires_at > now(), true), 'The expiry date must be in the future.');
  perform private.require(
    (select count(*) from public.api_keys
      where org_id = p_org_id and revoked_at is null and coalesce(expires_at > now(), true)) < 200,
    'The organisation has 200 API keys, the maximum. Revoke one first.', 'PT409', 'too_many');
  insert into public.api_keys (org_id, created_by, name, prefix, hash, scopes, expires_at)
  values (p_org_id, auth.uid(), p_name, v_prefix, sha256(convert_to(v_key, 'UTF8')), v_scopes, p_expires_at)
  returning id into v_id;
  return jsonb_build_object('id', v_id, 'key', v_key);
end $$;

-- Revokes a key and cancels its open runs. Allowed for its creator and for owners. Returns the time of revocation.
create function public.revoke_api_key(p_key_id uuid) returns timestamptz
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform from public.api_keys
  where id = p_key_id and (
    org_id in (select private.my_owned_org_ids())
    or (org_id in (select private.my_writable_org_ids()) and created_by = private.user_of(auth.uid())));
  perform private.check_found(found, 'key that you may revoke');
  perform private.cancel_runs_of(k.org_id, k.id, 'The API key that started this run was revoked.') from public.api_keys as k where k.id = p_key_id;
  update public.api_keys set revoked_at = now(), revoked_by = auth.uid()
  where id = p_key_id and revoked_at is null;
  return (select revoked_at from public.api_keys where id = p_key_id);
end $$;

-- Returns the key with this hash. `refusal`: key_revoked (also if its creator left) or key_expired.
create function private.use_api_key(p_hash bytea)
returns table (
  id uuid, org_id uuid, name text, prefix text, scopes text[], role text, expires_at timestamptz, refusal text,
  needs_recording boolean) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select k.id, k.org_id, k.name, k.prefix, k.scopes, a.role, k.expires_at,
    case when a.role is null then 'key_revoked' when k.expires_at <= now() then 'key_expired' end,
    coalesce(k.last_used_at < now() - interval '1 minute', true)
  from public.api_keys as k
  left join private.actors as a on a.org_id = k.org_id and a.user_id = k.id and a.is_key
  where k.hash = p_hash
$$;

create function private.record_api_key_use(p_key_id uuid) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update public.api_keys set last_used_at = now()
  where id = p_key_id and coalesce(last_used_at < now() - interval '1 minute', true)
$$;
