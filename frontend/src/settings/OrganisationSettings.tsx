/** The settings of an organisation. Owners can change them; changes apply at once. */

import { useQueries } from '@tanstack/react-query';
import { useState } from 'react';
import { dataOf, api } from '../api/client';
import type { Organisation, OrganisationChange } from '../api/types';
import { toolName } from '../runs/toolText';
import { session } from '../session/session';
import { Button } from '../components/ui/Button';
import { t } from '../shared/i18n';
import styles from './Settings.module.css';
import { agentToolsQuery } from './settingsQueries';
import { useSettingsMutation } from './useSettingsMutation';

const SWITCHES = ['second_person', 'auto_create', 'examples'] as const;
const WRITING_AGENTS = ['document', 'extraction', 'stack'] as const;

export function OrganisationSettings({ organisation, isOwner }: { organisation: Organisation; isOwner: boolean }) {
  const [name, setName] = useState(organisation.name);
  const path = { organisation_id: organisation.id };
  const change = useSettingsMutation(['me'], (body: OrganisationChange) =>
    dataOf(api.PATCH('/api/organisations/{organisation_id}', { params: { path }, body })),
  );
  // Show the new choice while it is being saved.
  const shown = { ...organisation, ...(change.isPending && change.variables) };
  return (
    <>
      <form
        className={styles.line}
        onSubmit={(event) => {
          event.preventDefault();
          change.mutate({ name });
        }}>
        <label className={styles.grows}>
          <span>{t('settings.organisation.name')}</span>
          <input value={name} maxLength={200} disabled={!isOwner} onChange={(event) => setName(event.target.value)} />
        </label>
        {isOwner && (
          <Button type="submit" disabled={change.isPending || name.trim() === '' || name === organisation.name}>
            {t('settings.organisation.rename')}
          </Button>
        )}
      </form>
      <label className={styles.choice}>
        <span>
          <b>{t('settings.organisation.approvers')}</b>
        </span>
        <select
          value={shown.approvers ?? 'members'}
          disabled={!isOwner || change.isPending}
          onChange={(event) => change.mutate({ approvers: event.target.value as Organisation['approvers'] })}>
          <option value="members">{t('settings.organisation.approver.members')}</option>
          <option value="owners">{t('settings.organisation.approver.owners')}</option>
        </select>
      </label>
      {SWITCHES.map((key) => (
        <label key={key} className={styles.choice}>
          <span>
            <b>{t(`settings.organisation.${key}`)}</b>
            <span className="muted">{t(`settings.organisation.${key}Hint`)}</span>
          </span>
          <input
            type="checkbox"
            checked={shown[key] ?? false}
            disabled={!isOwner || change.isPending}
            onChange={(event) => change.mutate({ [key]: event.target.checked })}
          />
        </label>
      ))}
      <ToolsToApprove
        approved={shown.auto_approved_tools ?? []}
        disabled={!isOwner || change.isPending}
        onChange={(tools) => change.mutate({ auto_approved_tools: tools })}
      />
      <NewOrganisation />
    </>
  );
}

interface ToolsProps {
  approved: readonly string[];
  disabled: boolean;
  onChange: (approved: string[]) => void;
}

/** The tools that write, by agent. A run asks before it calls one that is checked. */
function ToolsToApprove({ approved, disabled, onChange }: ToolsProps) {
  const tools = useQueries({ queries: WRITING_AGENTS.map(agentToolsQuery) });
  const all = tools.flatMap(({ data }) => data?.read_write ?? []);
  return (
    <>
      <div>
        <b>{t('settings.organisation.needsApproval')}</b>
        <p className="muted">{t('settings.organisation.needsApprovalHint')}</p>
      </div>
      {WRITING_AGENTS.map((agent, index) => (
        <fieldset key={agent} className={styles.scopes} disabled={disabled}>
          <legend>{t(`agents.${agent}`)}</legend>
          {tools[index]?.data?.read_write.map((tool) => (
            <label key={tool}>
              <input
                type="checkbox"
                checked={!approved.includes(tool)}
                onChange={(event) =>
                  onChange(all.filter((one) => (one === tool ? !event.target.checked : approved.includes(one))))
                }
              />
              {toolName(tool)}
            </label>
          ))}
        </fieldset>
      ))}
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
      }}>
      <label className={styles.grows}>
        <span>{t('settings.organisation.create')}</span>
        <input
          value={name}
          maxLength={200}
          placeholder={t('settings.organisation.newName')}
          onChange={(event) => setName(event.target.value)}
        />
      </label>
      <Button type="submit" disabled={create.isPending || name.trim() === ''}>
        {t('settings.organisation.createSubmit')}
      </Button>
    </form>
  );
}
