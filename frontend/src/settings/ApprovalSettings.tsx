/** Who approves what agents write, and which of their actions need it. Owners can change it; changes apply at once. */

import { useQueries } from '@tanstack/react-query';
import { api } from '../api/client';
import type { Organisation, OrganisationChange } from '../api/types';
import { toolName } from '../run/toolText';
import { t } from '../shared/i18n';
import { Checkbox } from '../components/ui/Checkbox';
import { Field } from '../components/ui/Field';
import { Select } from '../components/ui/Select';
import { Switch } from '../components/ui/Switch';
import { agentToolsQuery } from './settingsQueries';
import { useChange } from '../shared/useChange';

const WRITING_AGENTS = ['document', 'extraction', 'stack'] as const;

/** `shown`: the organisation, with the new choice while it is being saved. */
export function useOrganisationChange(organisation: Organisation) {
  const path = { organisation_id: organisation.id };
  const change = useChange(['me'], (body: OrganisationChange) =>
    api.patch('/api/organisations/{organisation_id}', { path, body }),
  );
  return { change, shown: { ...organisation, ...(change.isPending && change.variables) } as Organisation };
}

export function ApprovalSettings({ organisation, isOwner }: { organisation: Organisation; isOwner: boolean }) {
  const { change, shown } = useOrganisationChange(organisation);
  const disabled = !isOwner || change.isPending;
  return (
    <>
      <Field label={t('settings.organisation.approvers')} layout="row">
        <Select
          className="w-44!"
          value={shown.approvers ?? 'members'}
          disabled={disabled}
          options={(['members', 'owners'] as const).map((value) => ({
            value,
            label: t(`settings.organisation.approver.${value}`),
          }))}
          onChange={(approvers) => change.mutate({ approvers })}
        />
      </Field>
      <Switches keys={['second_person']} organisation={shown} disabled={disabled} onChange={change.mutate} />
      <ToolsToApprove
        approved={shown.auto_approved_tools ?? []}
        disabled={disabled}
        onChange={(tools) => change.mutate({ auto_approved_tools: tools })}
      />
    </>
  );
}

interface SwitchesProps {
  keys: readonly ('second_person' | 'auto_create' | 'examples')[];
  organisation: Organisation;
  disabled: boolean;
  onChange: (change: OrganisationChange) => void;
}

export function Switches({ keys, organisation, disabled, onChange }: SwitchesProps) {
  return keys.map((key) => (
    <Field
      key={key}
      layout="row"
      label={t(`settings.organisation.${key}`)}
      hint={t(`settings.organisation.${key}Hint`)}>
      <Switch checked={organisation[key] ?? false} disabled={disabled} onChange={(on) => onChange({ [key]: on })} />
    </Field>
  ));
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
        <ToolGroup
          key={agent}
          agent={agent}
          tools={tools[index]?.data?.read_write ?? []}
          approved={approved}
          disabled={disabled}
          onChange={(changed, isAsked) =>
            onChange(all.filter((one) => (changed.includes(one) ? !isAsked : approved.includes(one))))
          }
        />
      ))}
    </>
  );
}

interface GroupProps {
  agent: (typeof WRITING_AGENTS)[number];
  tools: readonly string[];
  approved: readonly string[];
  disabled: boolean;
  onChange: (tools: readonly string[], isAsked: boolean) => void;
}

/** One checkbox for all tools of an agent; each tool on demand. */
function ToolGroup({ agent, tools, approved, disabled, onChange }: GroupProps) {
  const asked = tools.filter((one) => !approved.includes(one));
  return (
    <fieldset aria-label={t(`agents.${agent}`)} disabled={disabled} className="rounded-md border border-border">
      <div className="flex items-center gap-2 px-3 py-1.5">
        <Checkbox
          className="flex-1"
          checked={asked.length > 0}
          isPartial={asked.length > 0 && asked.length < tools.length}
          disabled={disabled || tools.length === 0}
          onChange={() => onChange(tools, asked.length < tools.length)}>
          <span>
            <span className="block font-medium">{t(`agents.${agent}`)}</span>
            <span className="block text-xs text-muted-foreground">{t(`settings.organisation.groups.${agent}`)}</span>
          </span>
        </Checkbox>
      </div>
      <details className="border-t border-line px-3 py-1.5">
        <summary className="w-fit rounded-xs text-xs text-muted-foreground hover:text-foreground">
          {t('settings.organisation.askedOf', { asked: asked.length, count: tools.length })}
        </summary>
        <div className="mt-1 grid gap-x-4 sm:grid-cols-2">
          {tools.map((tool) => (
            <Checkbox
              key={tool}
              checked={!approved.includes(tool)}
              disabled={disabled}
              onChange={(isAsked) => onChange([tool], isAsked)}>
              {toolName(tool)}
            </Checkbox>
          ))}
        </div>
      </details>
    </fieldset>
  );
}
