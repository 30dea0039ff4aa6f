/** The settings of an organisation. Owners can change them; changes apply at once. */

import { useQueries } from '@tanstack/react-query';
import { useState } from 'react';
import { dataOf, api } from '../api/client';
import type { Organisation, OrganisationChange } from '../api/types';
import { toolName } from '../runs/toolText';
import { session } from '../session/session';
import { Button } from '../components/ui/Button';
import { t } from '../shared/i18n';
import { Checkbox } from '../components/ui/Checkbox';
import { Field } from '../components/ui/Field';
import { Input } from '../components/ui/Input';
import { Select } from '../components/ui/Select';
import { Switch } from '../components/ui/Switch';
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
        className="flex flex-wrap items-end gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          change.mutate({ name });
        }}>
        <Field label={t('settings.organisation.name')} className="min-w-60 flex-1">
          <Input value={name} maxLength={200} disabled={!isOwner} onChange={(event) => setName(event.target.value)} />
        </Field>
        {isOwner && (
          <Button
            size="md"
            type="submit"
            disabled={change.isPending || name.trim() === '' || name === organisation.name}>
            {t('settings.organisation.rename')}
          </Button>
        )}
      </form>
      <Field label={t('settings.organisation.approvers')} layout="row">
        <Select
          className="w-44!"
          value={shown.approvers ?? 'members'}
          disabled={!isOwner || change.isPending}
          options={(['members', 'owners'] as const).map((value) => ({
            value,
            label: t(`settings.organisation.approver.${value}`),
          }))}
          onChange={(approvers) => change.mutate({ approvers })}
        />
      </Field>
      {SWITCHES.map((key) => (
        <Field
          key={key}
          layout="row"
          label={t(`settings.organisation.${key}`)}
          hint={t(`settings.organisation.${key}Hint`)}>
          <Switch
            checked={shown[key] ?? false}
            disabled={!isOwner || change.isPending}
            onChange={(on) => change.mutate({ [key]: on })}
          />
        </Field>
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
        <b className="font-medium">{t('settings.organisation.needsApproval')}</b>
        <p className="muted">{t('settings.organisation.needsApprovalHint')}</p>
      </div>
      {WRITING_AGENTS.map((agent, index) => (
        <fieldset key={agent} className="grid gap-x-4 sm:grid-cols-2" disabled={disabled}>
          <legend className="mb-1 text-xs text-muted-foreground">{t(`agents.${agent}`)}</legend>
          {tools[index]?.data?.read_write.map((tool) => (
            <Checkbox
              key={tool}
              checked={!approved.includes(tool)}
              disabled={disabled}
              onChange={(isAsked) => onChange(all.filter((one) => (one === tool ? !isAsked : approved.includes(one))))}>
              {toolName(tool)}
            </Checkbox>
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
      className="flex flex-wrap items-end gap-3"
      onSubmit={(event) => {
        event.preventDefault();
        create.mutate({ name });
      }}>
      <Field label={t('settings.organisation.create')} className="min-w-60 flex-1">
        <Input
          value={name}
          maxLength={200}
          placeholder={t('settings.organisation.newName')}
          onChange={(event) => setName(event.target.value)}
        />
      </Field>
      <Button size="md" type="submit" disabled={create.isPending || name.trim() === ''}>
        {t('settings.organisation.createSubmit')}
      </Button>
    </form>
  );
}
