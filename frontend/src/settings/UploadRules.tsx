/** The rules for uploaded documents: the first that matches says what a document becomes. Owners change them. */

import { useQuery } from '@tanstack/react-query';
import { ArrowUp, Plus, Route } from 'lucide-react';
import { useState } from 'react';
import { api } from '../api/client';
import type { Organisation, UploadRule } from '../api/types';
import { Button } from '../components/ui/Button';
import { Dialog, DialogActions } from '../components/ui/Dialog';
import { EmptyState } from '../components/ui/EmptyState';
import { Form } from '../components/ui/Form';
import { Field } from '../components/ui/Field';
import { Input } from '../components/ui/Input';
import { MenuItem } from '../components/ui/Menu';
import { Select } from '../components/ui/Select';
import { Td, Th, Tr } from '../components/ui/Table';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { schemasQuery } from '../fields/extractionQueries';
import { tablesQuery } from '../records/tablesQuery';
import { RowMenu } from './RowMenu';
import { uploadRulesQuery } from './settingsQueries';
import { SettingsList } from './SettingsTable';
import { useChange } from '../shared/useChange';

const CONDITIONS = ['document_type', 'filename', 'sender'] as const;
type Condition = (typeof CONDITIONS)[number];
const TYPES = ['invoice', 'credit_note', 'receipt', 'contract', 'form', 'letter', 'document'] as const;
type Target = `${'schema' | 'stack'}:${string}`;

export function UploadRules({ organisation, isOwner }: { organisation: Organisation; isOwner: boolean }) {
  const listed = useQuery(uploadRulesQuery(organisation.id));
  const names = useTargets();
  const path = { organisation_id: organisation.id };
  const change = useChange([['organisation', organisation.id, 'upload rules']], (items: UploadRule[]) =>
    api.put('/api/organisations/{organisation_id}/upload_rules', { path, body: { items } }),
  );
  const rules = listed.data?.items ?? [];
  const [isAdding, setAdding] = useState(false);
  const close = () => setAdding(false);
  return (
    <>
      <SettingsList
        label={t('settings.sections.rules')}
        hint={t('settings.rules.hint')}
        add={
          isOwner && (
            <Button kind="main" icon={Plus} onClick={() => setAdding(true)}>
              {t('settings.rules.add')}
            </Button>
          )
        }
        list={listed}
        empty={<EmptyState icon={Route} title={t('settings.rules.none')} text={t('settings.rules.noneHint')} />}
        heads={
          <>
            <Th className="w-8">
              <span className="sr-only">{t('settings.rules.order')}</span>
            </Th>
            <Th>{t('settings.rules.condition')}</Th>
            <Th>{t('settings.rules.target')}</Th>
          </>
        }
        row={(rule) => {
          const index = rules.indexOf(rule);
          return (
            <Tr key={JSON.stringify(rule)}>
              <Td className="text-muted-foreground">{index + 1}</Td>
              <Td className="w-1/2 wrap-anywhere">{textOf(rule)}</Td>
              <Td className="font-medium wrap-anywhere">{names.get(targetOf(rule)) ?? t('settings.rules.deleted')}</Td>
              <Td className="text-right">
                {isOwner && (
                  <RowMenu
                    name={textOf(rule)}
                    action={t('common.delete')}
                    question={t('settings.rules.deleteQuestion')}
                    onConfirm={() => change.mutate(rules.toSpliced(index, 1))}>
                    <MenuItem
                      icon={ArrowUp}
                      disabled={index === 0 || change.isPending}
                      onChoose={() => change.mutate(rules.with(index - 1, rule).with(index, rules[index - 1]!))}>
                      {t('settings.rules.up')}
                    </MenuItem>
                  </RowMenu>
                )}
              </Td>
            </Tr>
          );
        }}
      />
      <Dialog title={t('settings.rules.add')} open={isAdding} onClose={close}>
        <NewRule
          names={names}
          isSaving={change.isPending}
          onAdd={(rule) => {
            change.mutate([...rules, rule]);
            close();
          }}
          onClose={close}
        />
      </Dialog>
    </>
  );
}

interface NewRuleProps {
  names: ReadonlyMap<Target, string>;
  isSaving: boolean;
  onAdd: (rule: UploadRule) => void;
  onClose: () => void;
}

function NewRule({ names, isSaving, onAdd, onClose }: NewRuleProps) {
  const [condition, setCondition] = useState<Condition>('document_type');
  const [text, setText] = useState('');
  const [target, setTarget] = useState<Target | null>(null);
  const wanted = condition === 'document_type' ? text || TYPES[0] : text.trim();
  return (
    <Form
      className="grid gap-3"
      onSubmit={() => {
        if (target === null || wanted === '') return;
        const [kind, id] = target.split(':') as ['schema' | 'stack', string];
        onAdd({ [condition]: wanted, [`${kind}_id`]: id });
      }}>
      <Field label={t('settings.rules.condition')}>
        <Select
          value={condition}
          options={CONDITIONS.map((value) => ({ value, label: t(`settings.rules.conditions.${value}`) }))}
          onChange={(next) => {
            setCondition(next);
            setText('');
          }}
        />
      </Field>
      <Field
        label={t('settings.rules.value')}
        hint={condition === 'sender' ? t('settings.rules.senderHint') : undefined}>
        {condition === 'document_type' ? (
          <Select
            value={(text || TYPES[0]) as (typeof TYPES)[number]}
            options={TYPES.map((value) => ({ value, label: t(`settings.rules.types.${value}`) }))}
            onChange={setText}
          />
        ) : (
          <Input
            value={text}
            maxLength={200}
            placeholder={t(`settings.rules.examples.${condition}`)}
            onValueChange={setText}
          />
        )}
      </Field>
      <Field label={t('settings.rules.target')}>
        <Select
          value={target}
          placeholder={t('settings.rules.choose')}
          options={[...names].map(([value, label]) => ({ value, label }))}
          onChange={setTarget}
        />
      </Field>
      <DialogActions
        label={t('settings.rules.add')}
        disabled={isSaving || target === null || wanted === ''}
        onClose={onClose}
      />
    </Form>
  );
}

/** The names of the schemas and stacks that a document can go to. */
function useTargets(): Map<Target, string> {
  const stacks = (useQuery(tablesQuery).data ?? []).filter((one) => one.stack_id !== null);
  const schemas = (useQuery(schemasQuery).data ?? []).filter((one) => !one.proposed);
  return new Map<Target, string>([
    ...stacks.map((one) => [`stack:${one.id}`, visibleText(one.name)] as const),
    ...schemas.map((one) => [`schema:${one.id}`, visibleText(one.name)] as const),
  ]);
}

const targetOf = (rule: UploadRule): Target => (rule.stack_id ? `stack:${rule.stack_id}` : `schema:${rule.schema_id}`);

function textOf(rule: UploadRule): string {
  return CONDITIONS.filter((key) => rule[key])
    .map((key) => `${t(`settings.rules.conditions.${key}`)}: ${valueText(key, rule[key] ?? '')}`)
    .join(', ');
}

function valueText(key: Condition, value: string): string {
  const known = TYPES.find((one) => one === value);
  return key === 'document_type' && known !== undefined ? t(`settings.rules.types.${known}`) : visibleText(value);
}
