/** The fields of a schema as rows: label, type, required, rule, an example from a page, and how to find it. */

import { GripVertical, Plus, Trash2 } from 'lucide-react';
import { type KeyboardEvent, useRef, useState } from 'react';
import type { Evidence, Extraction } from '../api/types';
import { Button } from '../components/ui/Button';
import { Form } from '../components/ui/Form';
import { cn } from '../components/ui/cn';
import { Field } from '../components/ui/Field';
import { Input, TextArea } from '../components/ui/Input';
import { Select } from '../components/ui/Select';
import { Switch } from '../components/ui/Switch';
import { Crop } from '../viewer/Crop';
import { formatPercent, visibleText } from '../shared/format';
import { SecondReadingHint } from '../shared/SecondReadingHint';
import { t } from '../shared/i18n';
import {
  addField,
  changed,
  compare,
  moveField,
  READINGS,
  removeField,
  rowsOf,
  rulesBetween,
  type SchemaRow,
  secondReading,
  setRequired,
  setSecondReading,
  setShape,
  setType,
  type Shape,
  TYPES,
} from './schemaModel';
import { ruleText } from './ruleText';

interface Props {
  /** As it is published. */
  stored: Shape;
  schema: Shape;
  canWrite: boolean;
  onChange: (schema: Shape) => void;
  filled: { documents: number; filled: ReadonlyMap<string, number | null> } | undefined;
  example: Extraction | null;
}

const gridClass = cn(
  'grid items-center gap-x-3 px-3 sm:px-4',
  'grid-cols-[1.25rem_minmax(0,1fr)_6.5rem_4rem] sm:grid-cols-[1.25rem_minmax(0,1fr)_6.5rem_4rem_minmax(0,1fr)]',
  'lg:grid-cols-[1.25rem_minmax(0,1.1fr)_6.5rem_4rem_minmax(0,1fr)_8rem_3rem]',
);

export function FieldsEditor({ stored, schema, canWrite, onChange, filled, example }: Props) {
  const rows = rowsOf(schema);
  const [open, setOpen] = useState<string | null>(null);
  const [dragged, setDragged] = useState<number | null>(null);
  const list = useRef<HTMLDivElement>(null);
  const difference = compare(stored, schema);
  const rules = rulesBetween(schema);
  const move = (from: number, to: number) => {
    if (to < 0 || to >= rows.length) return;
    onChange(moveField(schema, from, to));
    // The handle keeps the focus.
    const { key } = rows[from]!;
    requestAnimationFrame(() =>
      list.current?.querySelector<HTMLElement>(`[data-handle="${CSS.escape(key)}"]`)?.focus(),
    );
  };
  return (
    <div className="min-h-0 flex-1 overflow-y-auto" role="region" aria-label={t('schemas.tabs.fields')} tabIndex={0}>
      <div
        className={cn(
          gridClass,
          'sticky top-0 z-[1] h-8 border-b border-border bg-sidebar text-xs text-muted-foreground',
        )}>
        <span />
        <span>{t('schemas.label')}</span>
        <span>{t('schemas.type')}</span>
        <span>{t('schemas.required')}</span>
        <span className="max-sm:hidden">{t('schemas.rule')}</span>
        <span className="max-lg:hidden">{t('schemas.example')}</span>
        <span className="text-right max-lg:hidden">{t('schemas.filled')}</span>
      </div>
      <div ref={list} role="list" aria-label={t('schemas.tabs.fields')}>
        {rows.map((row, at) => {
          const change = difference.fields.find(({ key }) => key === row.key);
          const count = filled?.filled.get(row.key);
          const evidence = example?.evidence[row.key] as Evidence | undefined;
          return (
            <div
              key={row.key}
              role="listitem"
              data-open={open === row.key || undefined}
              className="border-b border-line data-open:bg-accent data-open:shadow-[inset_2px_0_0_var(--color-primary)]"
              onDragOver={(event) => dragged !== null && event.preventDefault()}
              onDrop={() => {
                if (dragged !== null) move(dragged, at);
                setDragged(null);
              }}>
              <div className={cn(gridClass, 'min-h-11')}>
                {canWrite ? (
                  <button
                    type="button"
                    draggable
                    data-handle={row.key}
                    aria-label={t('schemas.move', { name: visibleText(row.label) })}
                    className="flex size-6 cursor-grab items-center justify-center rounded-md text-muted-foreground hover:bg-hover"
                    onDragStart={() => setDragged(at)}
                    onDragEnd={() => setDragged(null)}
                    onKeyDown={(event: KeyboardEvent) => {
                      const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
                      if (step === undefined) return;
                      event.preventDefault();
                      move(at, at + step);
                    }}>
                    <GripVertical size={14} aria-hidden="true" />
                  </button>
                ) : (
                  <span />
                )}
                <button
                  type="button"
                  aria-expanded={open === row.key}
                  className="flex min-h-8 min-w-0 items-center gap-2 text-left font-medium"
                  onClick={() => setOpen(open === row.key ? null : row.key)}>
                  <span className="truncate">{visibleText(row.label)}</span>
                  {change !== undefined && (
                    <span
                      className={cn(
                        'size-1.5 shrink-0 rounded-full',
                        change.kind === 'added' ? 'bg-ok' : 'bg-primary',
                      )}>
                      <span className="sr-only">{t(`schemas.kinds.${change.kind}`)}</span>
                    </span>
                  )}
                </button>
                <TypeSelect
                  row={row}
                  canWrite={canWrite}
                  onChange={(next) => onChange(setShape(schema, row.key, next))}
                />
                <Switch
                  checked={row.isRequired}
                  disabled={!canWrite}
                  label={t('schemas.requiredOf', { name: visibleText(row.label) })}
                  onChange={(on) => onChange(setRequired(schema, row.key, on, stored))}
                />
                <span className="truncate text-muted-foreground max-sm:hidden">
                  {ruleText(row, [
                    ...(row.isAutomatic ? [t('stacks.requiredByDefault')] : []),
                    ...rules.filter((rule) => rule.fields[0] === row.key).map((rule) => rule.text),
                  ])}
                </span>
                <span className="max-lg:hidden">
                  {example !== null && evidence?.page != null && evidence.boxes?.[0] !== undefined && (
                    <Crop documentId={example.document_id} page={evidence.page} box={evidence.boxes[0]} width={240} />
                  )}
                </span>
                <span className="text-right text-xs text-muted-foreground max-lg:hidden">
                  {count != null && filled !== undefined && filled.documents > 0
                    ? formatPercent(count / filled.documents)
                    : change?.kind === 'added'
                      ? t('schemas.new')
                      : ''}
                </span>
              </div>
              {open === row.key && (
                <FieldDetails
                  row={row}
                  canWrite={canWrite}
                  onChange={(next) => onChange(setShape(schema, row.key, next))}
                  onRemove={() => {
                    setOpen(null);
                    onChange(removeField(schema, row.key));
                  }}
                />
              )}
            </div>
          );
        })}
      </div>
      {canWrite && <NewField onAdd={(label) => onChange(addField(schema, label))} />}
      <Field
        layout="row"
        className="m-4"
        label={t('agents.second_reading')}
        hint={<SecondReadingHint text={t('secondReading.schemaHint')} />}>
        <Select
          className="w-52!"
          value={secondReading(schema) ?? 'inherited'}
          disabled={!canWrite}
          options={(['inherited', ...READINGS] as const).map((value) => ({
            value,
            label: t(`secondReading.${value}`),
          }))}
          onChange={(mode) => onChange(setSecondReading(schema, mode === 'inherited' ? null : mode))}
        />
      </Field>
    </div>
  );
}

function TypeSelect({
  row,
  canWrite,
  onChange,
}: {
  row: SchemaRow;
  canWrite: boolean;
  onChange: (shape: Shape) => void;
}) {
  const isSimple = (TYPES as readonly string[]).includes(row.type);
  if (!canWrite || !isSimple) return <span className="text-muted-foreground">{t(`schemas.types.${row.type}`)}</span>;
  return (
    <Select
      kind="quiet"
      className="-ml-2 w-full font-normal!"
      label={t('schemas.typeOf', { name: visibleText(row.label) })}
      value={row.type as (typeof TYPES)[number]}
      options={TYPES.map((value) => ({ value, label: t(`schemas.types.${value}`) }))}
      onChange={(type) => onChange(setType(row.shape, type))}
    />
  );
}

interface DetailsProps {
  row: SchemaRow;
  canWrite: boolean;
  onChange: (shape: Shape) => void;
  onRemove: () => void;
}

function FieldDetails({ row: { key, label, type, shape }, canWrite, onChange, onRemove }: DetailsProps) {
  const set = (keywords: Shape) => onChange(changed(shape, keywords));
  const number = (value: string) => (value === '' || Number.isNaN(Number(value)) ? undefined : Number(value));
  return (
    <fieldset disabled={!canWrite} className="grid gap-3 px-4 pb-4 sm:grid-cols-2 sm:pl-12">
      <Field label={t('schemas.find')} className="sm:col-span-2">
        <TextArea
          rows={2}
          maxLength={2000}
          placeholder={t('schemas.findHint')}
          value={typeof shape.description === 'string' ? shape.description : ''}
          onChange={({ target }) => set({ description: target.value === '' ? undefined : target.value })}
        />
      </Field>
      <Field label={t('schemas.label')} hint={<code>{key}</code>}>
        <Input
          maxLength={200}
          value={typeof shape.title === 'string' ? shape.title : label}
          onChange={({ target }) => set({ title: target.value.trim() === '' ? undefined : target.value })}
        />
      </Field>
      {type === 'text' && (
        <Field label={t('schemas.pattern')} hint={t('schemas.patternHint')}>
          <Input
            className="font-mono"
            maxLength={1000}
            value={typeof shape.pattern === 'string' ? shape.pattern : ''}
            onChange={({ target }) => set({ pattern: target.value === '' ? undefined : target.value })}
          />
        </Field>
      )}
      {type === 'choice' && (
        <Field label={t('schemas.choices')} hint={t('schemas.choicesHint')}>
          <Input
            defaultValue={(shape.enum as unknown[]).filter((one) => one !== null).join(', ')}
            onChange={({ target }) =>
              set({
                enum: [
                  ...target.value.split(',').flatMap((one) => (one.trim() === '' ? [] : [one.trim()])),
                  ...((shape.enum as unknown[]).includes(null) ? [null] : []),
                ],
              })
            }
          />
        </Field>
      )}
      {type === 'number' && (
        <div className="grid grid-cols-2 gap-3">
          {(['minimum', 'maximum'] as const).map((one) => (
            <Field key={one} label={t(`schemas.${one}`)}>
              <Input
                inputMode="decimal"
                defaultValue={typeof shape[one] === 'number' ? String(shape[one]) : ''}
                onChange={({ target }) => set({ [one]: number(target.value) })}
              />
            </Field>
          ))}
        </div>
      )}
      {canWrite && (
        <div className="sm:col-span-2">
          <Button kind="quiet" danger icon={Trash2} onClick={onRemove}>
            {t('schemas.remove')}
          </Button>
        </div>
      )}
    </fieldset>
  );
}

function NewField({ onAdd }: { onAdd: (label: string) => void }) {
  const [label, setLabel] = useState('');
  const submit = () => {
    if (label.trim() === '') return;
    onAdd(label);
    setLabel('');
  };
  return (
    <Form className="flex items-center gap-2 px-4 py-3" onSubmit={submit}>
      <Input
        aria-label={t('schemas.newField')}
        placeholder={t('schemas.newField')}
        maxLength={200}
        className="max-w-64"
        value={label}
        onValueChange={setLabel}
      />
      <Button size="md" type="submit" icon={Plus} disabled={label.trim() === ''}>
        {t('schemas.addField')}
      </Button>
    </Form>
  );
}
