-- Invitations: a link that makes whoever accepts it a member. Nobody becomes one without accepting.

create table public.invitations (
  id uuid primary key default private.new_id(),
  org_id uuid not null references public.organisations (id) on delete cascade,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  -- Only a user whose token names this address may accept it; null: whoever has the link, once.
  email text check (char_length(email) between 3 and 320),
  role text not null check (role in ('owner', 'member', 'viewer')),
  -- The SHA-256 of its token, which is kept nowhere.
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

-- Creates an invitation and returns {"id", "token"}. At most 1,000 wait in an organisation.
create function public.invite(p_org_id uuid, p_role text, p_email text default null, p_days integer default 7)
returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_token text := 'fmi_' || encode(
    sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())), 'hex');
  v_id uuid;
begin
  perform private.check_owner(p_org_id);
  perform private.current_user_id() where p_role = 'owner';  -- a key creates no owner
  perform private.require(p_role in ('owner', 'member', 'viewer'), 'A member is an owner, a member or a viewer.');
  perform private.require(
    p_email is null or p_email ~ '^[^@[:space:]]+@[^@[:space:]]+$' and char_length(p_email) <= 320,
    'This is no address of an e-mail.');
  perform private.require(p_days between 1 and 90, 'An invitation holds for 1 to 90 days.');
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
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_row public.invitations;
begin
  select * into v_row from public.invitations
  where id = p_invitation_id and org_id in (select private.my_owned_org_ids()) for no key update;
  perform private.check_found(found, 'invitation');
  perform private.require(
    v_row.accepted_at is null, 'It was accepted already: remove the member instead.', 'PT409', 'invitation_used');
  update public.invitations set revoked_at = now(), revoked_by = auth.uid()
  where id = v_row.id and revoked_at is null;
end $$;

-- Accepts an invitation once, and returns {"org_id", "role"}. Of two at the same moment the second waits.
create function public.accept_invitation(p_token text) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_user uuid := private.current_user_id();
  v_row public.invitations;
  v_account jsonb;
begin
  select * into v_row from public.invitations where hash = sha256(convert_to(p_token, 'UTF8')) for no key update;
  perform private.require(found, 'There is no such invitation: copy the whole link.', 'PT404');
  perform private.require(
    v_row.accepted_at is null, 'This invitation was used already: ask for another.', 'PT409', 'invitation_used');
  perform private.require(
    v_row.revoked_at is null, 'This invitation was taken back: ask for another.', 'PT410', 'invitation_revoked');
  perform private.require(
    v_row.expires_at > now(), 'This invitation has expired: ask for another.', 'PT410', 'invitation_expired');
  if v_row.email is not null then
    select to_jsonb(u) into v_account from auth.users as u where u.id = v_user;
    -- (Supabase Auth says when an address was confirmed; a plain Postgres has no such column.)
    -- (Only A to Z are folded: lower() of Unicode makes a `k` of the Kelvin sign.)
    if lower(auth.jwt() ->> 'email' collate "C") is distinct from lower(v_row.email collate "C")
      or (v_account ? 'email_confirmed_at' and v_account ->> 'email_confirmed_at' is null) then
      raise exception 'This invitation is for somebody else: sign in with the address that it was sent to.'
        using errcode = 'PT403', detail = 'invitation_for_another';
    end if;
  end if;
  -- Whoever gives the organisation up holds this row meanwhile.
  perform from public.organisations where id = v_row.org_id for no key update;
  if exists (select from private.organisation_deletions where org_id = v_row.org_id) then
    raise exception 'The organisation is there no longer.' using errcode = 'PT410', detail = 'invitation_revoked';
  end if;
  -- Or a link that an owner kept, or that a key left behind, would bring them back when they are gone.
  perform private.require(
    private.role_of(v_row.org_id, v_row.created_by) = 'owner',
    'Whoever sent this invitation owns the organisation no longer: ask for another.', 'PT410', 'invitation_revoked');
  perform private.enter();
  insert into public.memberships (org_id, user_id, role, created_by)
  values (v_row.org_id, v_user, v_row.role, v_row.created_by)
  on conflict do nothing;
  perform private.require(found, 'You are a member of this organisation already.', 'PT409', 'already_member');
  update public.invitations set accepted_at = now(), accepted_by = v_user where id = v_row.id;
  return jsonb_build_object('org_id', v_row.org_id, 'role', v_row.role);
end $$;

create function private.address_of(p_org_id uuid, p_user_id uuid) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select u.email from public.memberships as m join auth.users as u on u.id = m.user_id
  where m.org_id = p_org_id and m.user_id = p_user_id and p_org_id in (select private.my_org_ids())
$$;
