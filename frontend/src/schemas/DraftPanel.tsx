/** What a draft of a schema changes: tried on documents, compared with the published version, and in rows. */

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { ArrowRight, Play } from 'lucide-react';
import { useState } from 'react';
import { api } from '../api/client';
import { Button } from '../components/ui/Button';
import { Checkbox } from '../components/ui/Checkbox';
import { cn } from '../components/ui/cn';
import { ErrorNotice, errorMessage } from '../components/ui/Notice';
import { Skeleton } from '../components/ui/Skeleton';
import { toast } from '../components/ui/Toast';
import { actOnEach } from '../shared/actOnEach';
import { formatCost, formatEstimate, sumCosts, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { ruleText } from './ruleText';
import { compare, type FieldChange, rowsOf, type SchemaRow, type Shape } from './schemaModel';
import { effectQuery, examplesQuery, type Trial, tryOn } from './schemaQueries';
import { refresh } from '../api/queryKeys';

const TRIED = 3;

interface Props {
  schemaId: string;
  revid: string;
  number: number;
  stored: Shape;
  draft: Shape;
  onPublished: () => void;
  onDiscard: () => void;
}

export function DraftPanel({ schemaId, revid, number, stored, draft, onPublished, onDiscard }: Props) {
  const queries = useQueryClient();
  const effect = useQuery(effectQuery(schemaId, draft));
  const [isReadAgain, setReadAgain] = useState(true);
  const again = effect.data?.read_again ?? 0;
  const publish = useMutation({
    mutationFn: async () => {
      await api.patch('/api/schemas/{schema_id}', {
        path: { schema_id: schemaId },
        header: { 'If-Match': `"${revid}"` },
        body: { schema: draft },
      });
      if (!isReadAgain || (effect.data?.extractions ?? 0) === 0) return;
      for (let before: string | null | undefined; before !== null; ) {
        const applied = await api.post('/api/schemas/{schema_id}/apply', {
          path: { schema_id: schemaId },
          body: { limit: 200, ...(before !== undefined && { before }) },
        });
        before = applied.stopped === null ? applied.next : null;
      }
    },
    onSuccess: () => {
      toast(t('schemas.published', { number: number + 1 }));
      void refresh(queries, 'schemas', 'records', 'stacks', 'documents', 'extraction', 'schema of');
      onPublished();
    },
  });
  return (
    <>
      <div
        className="min-h-0 flex-1 border-border bg-sidebar p-4 max-xl:flex-none max-xl:border-t xl:overflow-y-auto"
        role="region"
        aria-label={t('schemas.draft')}
        tabIndex={0}>
        <TryOut schemaId={schemaId} draft={draft} />
        <h3 className="mt-5 mb-2 text-xs font-normal text-muted-foreground">
          {t('schemas.against', { number: number + 1, before: number })}
        </h3>
        <Changes before={stored} after={draft} />
        <h3 className="mt-5 mb-2 text-xs font-normal text-muted-foreground">{t('schemas.touches')}</h3>
        {effect.isError ? (
          <ErrorNotice error={effect.error} />
        ) : effect.data === undefined ? (
          <Skeleton className="w-40" />
        ) : (
          <ul className="divide-y divide-line rounded-lg border border-border bg-card [&>li]:flex [&>li]:justify-between [&>li]:gap-3 [&>li]:px-3 [&>li]:py-2">
            <li>
              <span className="font-medium">{t('schemas.rows', { count: effect.data.extractions })}</span>
              <span className="text-right text-xs text-muted-foreground">{t('schemas.keepValues')}</span>
            </li>
            {effect.data.missing.map(({ path, rows: count }) => (
              <li key={path}>
                <span className="font-medium text-need">{t('schemas.rows', { count })}</span>
                <span className="text-right text-xs text-muted-foreground">
                  {t('schemas.wouldMiss', {
                    count,
                    field: visibleText(rowsOf(draft).find(({ key }) => key === path)?.label ?? path),
                  })}
                </span>
              </li>
            ))}
            {again > 0 && (
              <li>
                <span className="font-medium">{t('schemas.rows', { count: again })}</span>
                <span className="text-right text-xs text-muted-foreground">{t('schemas.canBeRead')}</span>
              </li>
            )}
            {effect.data.prompts.map((one) => (
              <li key={one.prompt_id}>
                <span className="truncate font-medium">{t('chat.prompt', { name: visibleText(one.name) })}</span>
                <span className="text-right text-xs text-muted-foreground">
                  {one.schema_version === null
                    ? t('schemas.follows')
                    : t('schemas.pinned', { number: one.schema_version })}
                </span>
              </li>
            ))}
          </ul>
        )}
        {publish.isError && (
          <div className="mt-4">
            <ErrorNotice error={publish.error} />
          </div>
        )}
      </div>
      <div className="flex flex-wrap items-center justify-between gap-2 border-t border-border bg-sidebar px-4 py-3 max-xl:sticky max-xl:bottom-0 max-xl:z-[2]">
        {again > 0 ? (
          <Checkbox checked={isReadAgain} onChange={setReadAgain}>
            {effect.data?.estimated_cost_usd == null
              ? t('schemas.readAgain', { count: again })
              : t('schemas.readAgainCost', { count: again, cost: formatEstimate(effect.data.estimated_cost_usd) })}
          </Checkbox>
        ) : (
          <span />
        )}
        <span className="flex gap-2">
          <Button kind="quiet" size="md" onClick={onDiscard}>
            {t('schemas.discard')}
          </Button>
          <Button kind="main" size="md" disabled={publish.isPending || effect.isError} onClick={() => publish.mutate()}>
            {t('schemas.publish', { number: number + 1 })}
          </Button>
        </span>
      </div>
    </>
  );
}

/** What differs between two versions, a line for each field. */
export function Changes({ before, after }: { before: Shape; after: Shape }) {
  const { fields, order, rules, reading } = compare(before, after);
  const signs = { added: ['+', 'text-ok'], changed: ['~', 'text-link'], removed: ['−', 'text-bad'] } as const;
  if (fields.length === 0 && !order && !rules && reading === undefined)
    return <p className="text-muted-foreground">{t('schemas.same')}</p>;
  return (
    <ul className="grid gap-1.5 rounded-lg border border-border bg-card p-3">
      {fields.map(({ key, label, kind, what, was, is }) => (
        <li key={key} className="grid grid-cols-[1rem_minmax(0,1fr)_minmax(0,1.2fr)] gap-x-2">
          <span aria-hidden="true" className={cn('font-semibold', signs[kind][1])}>
            {signs[kind][0]}
          </span>
          <span className="truncate font-medium">{visibleText(label)}</span>
          <span className="text-muted-foreground">
            {(kind === 'changed' ? [] : [t(`schemas.kinds.${kind}`)])
              .concat(what.map((one) => changeText(one, was, is)))
              .join(', ')}
          </span>
        </li>
      ))}
      {order !== null && (
        <li>
          {order === 'many'
            ? t('schemas.changes.order')
            : order.before === null
              ? t('schemas.changes.movedLast', { field: visibleText(order.moved) })
              : t('schemas.changes.moved', { field: visibleText(order.moved), before: visibleText(order.before) })}
        </li>
      )}
      {rules && <li>{t('schemas.changes.rules')}</li>}
      {reading !== undefined && (
        <li>
          {t('agents.second_reading')}: {t(`secondReading.${reading ?? 'inherited'}`)}
        </li>
      )}
    </ul>
  );
}

function changeText(what: FieldChange['what'][number], was: SchemaRow | undefined, is: SchemaRow | undefined): string {
  if (was === undefined || is === undefined) return t(`schemas.changes.${what}`);
  if (what === 'type') return `${t(`schemas.types.${was.type}`)} → ${t(`schemas.types.${is.type}`)}`;
  if (what === 'label') return t('schemas.changes.labelOf', { before: visibleText(was.label) });
  const rule = ruleText(is);
  return what === 'rule' && rule !== '' ? t('schemas.changes.ruleOf', { rule }) : t(`schemas.changes.${what}`);
}

function TryOut({ schemaId, draft }: { schemaId: string; draft: Shape }) {
  const queries = useQueryClient();
  const examples = useQuery(examplesQuery(schemaId)).data?.rows.slice(0, TRIED) ?? [];
  const [trials, setTrials] = useState<readonly Trial[]>([]);
  const run = useMutation({
    mutationFn: async () => {
      const made: Trial[] = [];
      await actOnEach(
        examples,
        async ({ document_id: documentId, filename, cells }) => {
          const before = Object.fromEntries(Object.entries(cells).map(([path, cell]) => [path, cell.value ?? null]));
          const tried = await tryOn(documentId, draft);
          made.push({ documentId, filename, before, ...tried });
          setTrials([...made]);
        },
        () => undefined,
      );
      return made;
    },
    onError: (error) => toast(errorMessage(error), { urgent: true }),
    onSettled: () => {
      void refresh(queries, 'documents', 'records', 'inbox', 'runs');
    },
  });
  if (examples.length === 0) return null;
  const cost = sumCosts(trials.map((one) => one.cost ?? 0)) ?? 0;
  const rows = rowsOf(draft);
  return (
    <section aria-labelledby="try-out">
      <div className="mb-2 flex items-center justify-between gap-2">
        <h3 id="try-out" className="font-semibold">
          {t('schemas.try', { count: examples.length })}
        </h3>
        <span className="flex items-center gap-2 text-xs text-muted-foreground">
          {trials.length > 0 && formatCost(cost)}
          <Button icon={Play} disabled={run.isPending} onClick={() => run.mutate()}>
            {run.isPending ? t('schemas.trying') : trials.length > 0 ? t('schemas.again') : t('schemas.start')}
          </Button>
        </span>
      </div>
      {trials.length > 0 && (
        <ul className="divide-y divide-line rounded-lg border border-border bg-card">
          {trials.map((trial) => (
            <TrialRow key={trial.documentId} trial={trial} rows={rows} />
          ))}
        </ul>
      )}
    </section>
  );
}

function TrialRow({ trial: { filename, before, after, error }, rows }: { trial: Trial; rows: readonly SchemaRow[] }) {
  const text = (value: unknown) =>
    value == null ? null : visibleText(typeof value === 'object' ? JSON.stringify(value) : String(value));
  const simple = rows.filter(({ type }) => type !== 'rows' && type !== 'object' && type !== 'other');
  const different = after === null ? [] : simple.filter(({ key }) => text(before[key]) !== text(after[key]));
  return (
    <li className="grid gap-1 px-3 py-2">
      <span className="flex justify-between gap-2">
        <span className="truncate font-medium">{visibleText(filename)}</span>
        <span className="text-xs whitespace-nowrap text-muted-foreground">
          {after === null
            ? t('runs.statuses.failed')
            : t('schemas.sameValues', { count: simple.length - different.length })}
        </span>
      </span>
      {after === null && error !== null && <span className="text-xs text-bad">{visibleText(error)}</span>}
      {different.map(({ key, label, isRequired }) => (
        <span key={key} className="grid grid-cols-[minmax(0,6rem)_minmax(0,1fr)] gap-2 text-sm">
          <span className="truncate text-muted-foreground">{visibleText(label)}</span>
          <span className="flex min-w-0 flex-wrap items-center gap-1.5">
            {before[key] != null && <s className="text-muted-foreground">{text(before[key])}</s>}
            {before[key] != null && <ArrowRight size={12} className="text-muted-foreground" aria-hidden="true" />}
            {after?.[key] == null ? (
              <span className={isRequired ? 'font-medium text-need' : 'text-faint'}>
                {isRequired ? t('adding.missing') : '–'}
              </span>
            ) : (
              <span className="font-medium text-ok">{text(after[key])}</span>
            )}
          </span>
        </span>
      ))}
    </li>
  );
}
