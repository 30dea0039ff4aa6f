/** What holds in an organisation. Owners change it; each change counts at once. */

import { useState } from 'react';
import { dataOf, api } from '../api/client';
import type { Organisation, OrganisationChange } from '../api/types';
import { session } from '../session/session';
import { Button } from '../shared/Button';
import styles from './Settings.module.css';
import { useSettingsMutation } from './useSettingsMutation';

const SWITCHES = [
  ['second_person', 'Four eyes', 'Somebody else than who started a run decides what it asks about. Then every run asks.'],
  ['auto_create', 'Propose by itself', 'For each upload an agent proposes a schema, a prompt and an extraction. It counts once somebody accepts it.'],
  ['examples', 'Learn from corrections', 'The agent is shown what people put right in documents like the one that it reads.'],
] as const;

export function OrganisationSettings({ organisation, isOwner }: { organisation: Organisation; isOwner: boolean }) {
  const [name, setName] = useState(organisation.name);
  const path = { organisation_id: organisation.id };
  const change = useSettingsMutation(['me'], (body: OrganisationChange) =>
    dataOf(api.PATCH('/api/organisations/{organisation_id}', { params: { path }, body })),
  );
  // What was just chosen is shown until the service has said what holds.
  const shown = { ...organisation, ...(change.isPending && change.variables) };
  return (
    <>
      <form
        className={styles.line}
        onSubmit={(event) => {
          event.preventDefault();
          change.mutate({ name });
        }}
      >
        <label className={styles.grows}>
          <span>Name</span>
          <input value={name} maxLength={200} disabled={!isOwner} onChange={(event) => setName(event.target.value)} />
        </label>
        {isOwner && (
          <Button type="submit" disabled={change.isPending || name.trim() === '' || name === organisation.name}>
            Rename
          </Button>
        )}
      </form>
      <label className={styles.choice}>
        <span>
          <b>Who decides what a run asks about</b>
        </span>
        <select
          value={shown.approvers ?? 'members'}
          disabled={!isOwner || change.isPending}
          onChange={(event) => change.mutate({ approvers: event.target.value as Organisation['approvers'] })}
        >
          <option value="members">whoever started it, or any member</option>
          <option value="owners">owners alone</option>
        </select>
      </label>
      {SWITCHES.map(([key, title, words]) => (
        <label key={key} className={styles.choice}>
          <span>
            <b>{title}</b>
            <span className="muted">{words}</span>
          </span>
          <input
            type="checkbox"
            checked={shown[key] ?? false}
            disabled={!isOwner || change.isPending}
            onChange={(event) => change.mutate({ [key]: event.target.checked })}
          />
        </label>
      ))}
      <NewOrganisation />
    </>
  );
}

function NewOrganisation() {
  const [name, setName] = useState('');
  const create = useSettingsMutation(['me'], async (body: { name: string }) => {
    const made = await dataOf(api.POST('/api/organisations', { body }));
    session.selectOrganisation(made.id);
    return made;
  });
  return (
    <form
      className={styles.line}
      onSubmit={(event) => {
        event.preventDefault();
        create.mutate({ name });
      }}
    >
      <label className={styles.grows}>
        <span>Make another organisation</span>
        <input value={name} maxLength={200} placeholder="Its name" onChange={(event) => setName(event.target.value)} />
      </label>
      <Button type="submit" disabled={create.isPending || name.trim() === ''}>
        Make it
      </Button>
    </form>
  );
}
