-- Invitations: a link whose recipient becomes a member by accepting it.

create table public.invitations (
  id uuid primary key default private.new_id(),
  org_id uuid not null references public.organisations (id) on delete cascade,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  -- Only a user whose token contains this address may accept it. Null: anyone with the link, once.
  email text check (char_length(email) between 3 and 320),
  role text not null check (role in ('owner', 'member', 'viewer')),
  -- SHA-256 of the token. The token itself is not stored.
  hash bytea not null unique check (octet_length(hash) = 32),
  expires_at timestamptz not null,
  accepted_at timestamptz,
  accepted_by uuid,
  revoked_at timestamptz,
  revoked_by uuid
);
create index invitations_org_id on public.invitations (org_id, created_at desc, id desc);
select private.protect_table('public.invitations');
grant select (
  id, org_id, created_by, created_at, email, role, expires_at, accepted_at, accepted_by, revoked_at, revoked_by
) on public.invitations to authenticated;

create policy "owners see the invitations of their organisations" on public.invitations
  for select to authenticated using (org_id in (select private.my_owned_org_ids()));

-- Creates an invitation and returns {"id", "token"}. An organisation has at most 1,000 pending invitations.
create function public.invite(p_org_id uuid, p_role text, p_email text default null, p_days integer default 7)
returns jsonb language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_token text := 'fmi_' || encode(
    sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())), 'hex');
  v_id uuid;
begin
  perform private.check_owner(p_org_id);
  perform private.current_user_id() where p_role = 'owner';  -- a key creates no owner
  perform private.require(p_role in ('owner', 'member', 'viewer'), '`role` must be owner, member or viewer.');
  perform private.require(
    p_email is null or p_email ~ '^[^@[:space:]]+@[^@[:space:]]+$' and char_length(p_email) <= 320,
    'This is not an email address.');
  perform private.require(p_days between 1 and 90, 'An invitation is valid for 1 to 90 days.');
  perform from public.organisations where id = p_org_id for no key update;
  perform private.require(
    (select count(*) from public.invitations
      where org_id = p_org_id and accepted_at is null and revoked_at is null and expires_at > now()) < 1000,
    '1,000 invitations wait already: revoke some.', 'PT409', 'too_many');
  insert into public.invitations (org_id, email, role, hash, expires_at)
  values (p_org_id, p_email, p_role, sha256(convert_to(v_token, 'UTF8')), now() + make_interval(days => p_days))
  returning id into v_id;
  return jsonb_build_object('id', v_id, 'token', v_token);
end $$;

create function public.revoke_invitation(p_invitation_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_row public.invitations;
begin
  select * into v_row from public.invitations
  where id = p_invitation_id and org_id in (select private.my_owned_org_ids()) for no key update;
  perform private.check_found(found, 'invitation');
  perform private.require(
    v_row.accepted_at is null, 'The invitation was already accepted. Remove the member instead.', 'PT409', 'invitation_used');
  update public.invitations set revoked_at = now(), revoked_by = auth.uid()
  where id = v_row.id and revoked_at is null;
end $$;

-- Returns the invitation with this token, locked, if this user may accept it now.
create function private.usable_invitation(p_token text) returns public.invitations
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_user uuid := private.current_user_id();
  v_row public.invitations;
  v_account jsonb;
begin
  select * into v_row from public.invitations where hash = sha256(convert_to(p_token, 'UTF8')) for no key update;
  perform private.require(found, 'Invitation not found. Open the full link that you were sent.', 'PT404');
  perform private.require(
    v_row.accepted_at is null, 'This invitation was already used. Ask for a new one.', 'PT409', 'invitation_used');
  perform private.require(
    v_row.revoked_at is null, 'This invitation was revoked. Ask for a new one.', 'PT410', 'invitation_revoked');
  perform private.require(
    v_row.expires_at > now(), 'This invitation has expired. Ask for a new one.', 'PT410', 'invitation_expired');
  if v_row.email is not null then
    select to_jsonb(u) into v_account from auth.users as u where u.id = v_user;
    -- (Supabase Auth records when an address was confirmed. Plain Postgres has no such column.)
    -- (Only A to Z are folded: Unicode lower() turns the Kelvin sign into `k`.)
    if lower(auth.jwt() ->> 'email' collate "C") is distinct from lower(v_row.email collate "C")
      or (v_account ? 'email_confirmed_at' and v_account ->> 'email_confirmed_at' is null) then
      raise exception 'This invitation is for another email address. Sign in with the address it was sent to.'
        using errcode = 'PT403', detail = 'invitation_for_another';
    end if;
  end if;
  -- An owner who is deleting the organisation holds this row.
  perform from public.organisations where id = v_row.org_id for no key update;
  perform private.require(
    not exists (select from private.organisation_deletions where org_id = v_row.org_id),
    'This organisation was deleted.', 'PT410', 'invitation_revoked');
  -- Otherwise a removed owner could return with a link that they kept.
  perform private.require(
    private.role_of(v_row.org_id, v_row.created_by) = 'owner',
    'The sender of this invitation is no longer an owner. Ask for a new one.', 'PT410', 'invitation_revoked');
  return v_row;
end $$;

-- What an invitation offers to the user who may accept it: {"organisation", "role", "expires_at"}.
create function public.read_invitation(p_token text) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_row public.invitations := private.usable_invitation(p_token);
begin
  perform private.current_user_id();
  return jsonb_build_object(
    'organisation', (select name from public.organisations where id = v_row.org_id), 'role', v_row.role,
    'expires_at', v_row.expires_at);
end $$;

-- Accepts an invitation once and returns {"org_id", "role"}. Concurrent callers wait for each other.
create function public.accept_invitation(p_token text) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_user uuid := private.current_user_id();
  v_row public.invitations := private.usable_invitation(p_token);
begin
  perform private.resolve_organisation();
  insert into public.memberships (org_id, user_id, role, created_by)
  values (v_row.org_id, v_user, v_row.role, v_row.created_by) on conflict do nothing;
  perform private.require(found, 'You are already a member of this organisation.', 'PT409', 'already_member');
  update public.invitations set accepted_at = now(), accepted_by = v_user where id = v_row.id;
  return jsonb_build_object('org_id', v_row.org_id, 'role', v_row.role);
end $$;

create function private.address_of(p_org_id uuid, p_user_id uuid) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select u.email from public.memberships as m join auth.users as u on u.id = m.user_id
  where m.org_id = p_org_id and m.user_id = p_user_id and p_org_id in (select private.my_org_ids())
$$;
