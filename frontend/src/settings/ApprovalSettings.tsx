/** Who approves what agents write, and which of their actions need it. Owners can change it; changes apply at once. */

import { useQueries } from '@tanstack/react-query';
import { ListChecks } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { api } from '../api/client';
import type { Organisation, OrganisationChange } from '../api/types';
import { toolName } from '../run/toolText';
import { t } from '../shared/i18n';
import { Button } from '../components/ui/Button';
import { Card } from '../components/ui/Card';
import { Checkbox } from '../components/ui/Checkbox';
import { Dialog } from '../components/ui/Dialog';
import { Field } from '../components/ui/Field';
import { Select } from '../components/ui/Select';
import { Switch } from '../components/ui/Switch';
import { Table, Td, Tr } from '../components/ui/Table';
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

/** Settings below each other, with a line between. */
export function SettingRows({ children }: { children: ReactNode }) {
  return <Card className="divide-y divide-line py-1 [&>*]:py-3">{children}</Card>;
}

export function ApprovalSettings({ organisation, isOwner }: { organisation: Organisation; isOwner: boolean }) {
  const { change, shown } = useOrganisationChange(organisation);
  const disabled = !isOwner || change.isPending;
  return (
    <>
      <SettingRows>
        <Field
          label={t('settings.organisation.approvers')}
          hint={t('settings.organisation.approversHint')}
          layout="row">
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
      </SettingRows>
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
  const ask = (changed: readonly string[], isAsked: boolean) =>
    onChange(all.filter((one) => (changed.includes(one) ? !isAsked : approved.includes(one))));
  return (
    <Card title={t('settings.organisation.needsApproval')} className="grid gap-3">
      <p className="-mt-3 text-muted-foreground">{t('settings.organisation.needsApprovalHint')}</p>
      <Table isFlush label={t('settings.organisation.needsApproval')}>
        <tbody className="[&_td]:h-13">
          {WRITING_AGENTS.map((agent, index) => (
            <AgentRow
              key={agent}
              agent={agent}
              tools={tools[index]?.data?.read_write ?? []}
              approved={approved}
              disabled={disabled}
              onAsk={ask}
            />
          ))}
        </tbody>
      </Table>
    </Card>
  );
}

interface AgentProps {
  agent: (typeof WRITING_AGENTS)[number];
  tools: readonly string[];
  approved: readonly string[];
  disabled: boolean;
  onAsk: (tools: readonly string[], isAsked: boolean) => void;
}

/** The actions of an agent for which it asks: all, none, or the chosen ones. */
function AgentRow({ agent, tools, approved, disabled, onAsk }: AgentProps) {
  const [isChoosing, setChoosing] = useState(false);
  const asked = tools.filter((one) => !approved.includes(one));
  const name = t(`agents.${agent}`);
  const asks = asked.length === tools.length ? 'askAll' : asked.length === 0 ? 'askNone' : 'askedOf';
  const choices = asks === 'askedOf' ? (['askAll', 'askNone', 'askedOf'] as const) : (['askAll', 'askNone'] as const);
  return (
    <Tr>
      <Td className="w-full py-1.5">
        <p className="font-medium">{name}</p>
        <p className="text-xs text-muted-foreground">{t(`settings.organisation.groups.${agent}`)}</p>
      </Td>
      <Td>
        <Select<'askAll' | 'askNone' | 'askedOf'>
          kind="quiet"
          className="font-normal text-foreground max-sm:max-w-36"
          label={`${t('settings.organisation.needsApproval')}: ${name}`}
          value={asks}
          disabled={disabled || tools.length === 0}
          options={choices.map((value) => ({
            value,
            label: t(`settings.organisation.${value}`, { asked: asked.length, count: tools.length }),
          }))}
          onChange={(next) => next !== 'askedOf' && onAsk(tools, next === 'askAll')}
        />
      </Td>
      <Td className="text-right">
        <Button
          kind="quiet"
          icon={ListChecks}
          label={`${t('settings.organisation.chooseActions')}: ${name}`}
          onClick={() => setChoosing(true)}
        />
        <Dialog
          title={`${t('settings.organisation.needsApproval')}: ${name}`}
          open={isChoosing}
          onClose={() => setChoosing(false)}>
          <div className="grid text-left">
            {tools.map((tool) => (
              <Checkbox
                key={tool}
                checked={!approved.includes(tool)}
                disabled={disabled}
                onChange={(isAsked) => onAsk([tool], isAsked)}>
                {toolName(tool)}
              </Checkbox>
            ))}
          </div>
        </Dialog>
      </Td>
    </Tr>
  );
}
