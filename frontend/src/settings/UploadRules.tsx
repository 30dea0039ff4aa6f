/** The rules for uploaded documents: the first that matches says what a document becomes. Owners change them. */

import { useQuery } from '@tanstack/react-query';
import { ArrowUp, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { api } from '../api/client';
import type { Organisation, UploadRule } from '../api/types';
import { Button } from '../components/ui/Button';
import { Form } from '../components/ui/Form';
import { Field } from '../components/ui/Field';
import { Input } from '../components/ui/Input';
import { ErrorNotice } from '../components/ui/Notice';
import { Select } from '../components/ui/Select';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { schemasQuery } from '../fields/extractionQueries';
import { tablesQuery } from '../records/tablesQuery';
import { uploadRulesQuery } from './settingsQueries';
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
  if (listed.isError) return <ErrorNotice error={listed.error} onRetry={() => void listed.refetch()} />;
  const rules = listed.data?.items ?? [];
  return (
    <>
      <p className="text-muted-foreground">{t('settings.rules.hint')}</p>
      {listed.data?.items.length === 0 && (
        <p className="rounded-md border border-dashed border-border p-4 text-center">{t('settings.rules.none')}</p>
      )}
      <ol className="rounded-md border border-border empty:hidden">
        {rules.map((rule, index) => (
          <li
            key={JSON.stringify(rule)}
            className="flex min-h-11 items-center gap-2 border-b border-line pr-2 pl-3 last:border-0">
            <span className="w-6 text-muted-foreground">{index + 1}</span>
            <span className="min-w-0 flex-1 wrap-anywhere">
              {textOf(rule)} → <b className="font-medium">{names.get(targetOf(rule)) ?? t('settings.rules.deleted')}</b>
            </span>
            {isOwner && index > 0 && (
              <Button
                kind="quiet"
                icon={ArrowUp}
                label={t('settings.rules.up')}
                disabled={change.isPending}
                onClick={() => change.mutate(rules.with(index - 1, rule).with(index, rules[index - 1]!))}
              />
            )}
            {isOwner && (
              <Button
                kind="quiet"
                icon={Trash2}
                label={t('common.delete')}
                disabled={change.isPending}
                onClick={() => change.mutate(rules.toSpliced(index, 1))}
              />
            )}
          </li>
        ))}
      </ol>
      {isOwner && (
        <section className="grid gap-2" aria-labelledby="new-rule">
          <h2 id="new-rule" className="text-sm font-semibold">
            {t('settings.rules.new')}
          </h2>
          <NewRule names={names} isSaving={change.isPending} onAdd={(rule) => change.mutate([...rules, rule])} />
        </section>
      )}
    </>
  );
}

interface NewRuleProps {
  names: ReadonlyMap<Target, string>;
  isSaving: boolean;
  onAdd: (rule: UploadRule) => void;
}

function NewRule({ names, isSaving, onAdd }: NewRuleProps) {
  const [condition, setCondition] = useState<Condition>('document_type');
  const [text, setText] = useState('');
  const [target, setTarget] = useState<Target | null>(null);
  const wanted = condition === 'document_type' ? text || TYPES[0] : text.trim();
  return (
    <Form
      className="flex flex-wrap items-start gap-3"
      onSubmit={() => {
        if (target === null || wanted === '') return;
        const [kind, id] = target.split(':') as ['schema' | 'stack', string];
        onAdd({ [condition]: wanted, [`${kind}_id`]: id });
        setText('');
      }}>
      <Field label={t('settings.rules.condition')}>
        <Select
          className="w-44!"
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
        className="min-w-40 flex-1"
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
      <Field label={t('settings.rules.target')} className="min-w-40 flex-1">
        <Select
          value={target}
          placeholder={t('settings.rules.choose')}
          options={[...names].map(([value, label]) => ({ value, label }))}
          onChange={setTarget}
        />
      </Field>
      <Button size="md" type="submit" className="sm:mt-6" disabled={isSaving || target === null || wanted === ''}>
        {t('settings.rules.add')}
      </Button>
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
