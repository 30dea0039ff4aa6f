/** The files that were just added: what they are, and where they belong. */

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useLocation, useNavigate } from '@tanstack/react-router';
import { CircleCheck, Copy, Lock, Plus, Sparkles, TriangleAlert, X } from 'lucide-react';
import { useEffect, useId, useMemo, useRef, useState, type ReactNode } from 'react';
import { api } from '../api/client';
import type { DocumentGroup, DocumentGroups } from '../api/types';
import { Button } from '../components/ui/Button';
import { Form } from '../components/ui/Form';
import { Checkbox } from '../components/ui/Checkbox';
import { Input } from '../components/ui/Input';
import { ErrorNotice } from '../components/ui/Notice';
import { Progress } from '../components/ui/Progress';
import { Select, type SelectOption } from '../components/ui/Select';
import { StatusPill } from '../components/ui/StatusPill';
import { toast } from '../components/ui/Toast';
import { promptsQuery } from '../fields/extractionQueries';
import en from '../locales/en.json';
import { actOnEach } from '../shared/actOnEach';
import { readingErrorText } from '../shared/codeText';
import { formatBytes, formatDollars, formatEstimate, formatNumber, sumCosts, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { useShortcut } from '../shared/shortcuts/useShortcut';
import { useTableLinks } from '../records/tableLinks';
import { Letterhead } from './Letterhead';
import { NewTable } from './NewTable';
import { costLimit, groupsQuery, knownTarget, placeGroup, suggested, type Placing, type Target } from './placing';
import { UploadRow } from './Uploads';
import { dismiss, place, useUploads, type Upload } from './uploads';
import { refresh } from '../api/queryKeys';
import { useChange } from '../shared/useChange';

const READ = { id: 'adding.read', keys: 'Mod+Enter', inInputs: true } as const;
const MAX_NAMES = 3;

export function AddFiles() {
  const uploads = useUploads().filter((one) => !one.isPlaced);
  const queries = useQueryClient();
  if (uploads.length === 0) return null;
  const close = () => {
    place(uploads.filter(({ status }) => status !== 'done').map(({ id }) => id));
    dismiss(uploads.filter(({ status }) => status === 'done').map(({ id }) => id));
    void refresh(queries, 'documents');
  };
  const ids = uploads.flatMap(({ document }) => (document === undefined ? [] : [document.id]));
  return <AddPanel key={uploads[0]!.id} uploads={uploads} documentIds={ids} onClose={close} />;
}

interface PanelProps {
  /** The files that are added; none where documents are that were there before. */
  uploads: readonly Upload[];
  documentIds: readonly string[];
  onClose: () => void;
}

export function AddPanel({ uploads, documentIds, onClose }: PanelProps) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const title = useId();
  const panel = useRef<HTMLElement>(null);
  const key = documentIds.join(' ');
  const stored = useMemo(() => documentIds, [key]);
  const isUploading = uploads.some(({ status }) => status === 'waiting' || status === 'sending');
  const found = useQuery({ ...groupsQuery(stored), enabled: stored.length > 0 && !isUploading });
  const { groups = [], copies = [], failed = [], reading = 0 } = found.data ?? {};
  const isKnown = found.isSuccess && !isUploading && reading === 0;
  const [chosen, setChosen] = useState<Readonly<Record<string, Placing>>>({});
  const [keepsCopies, setKeepsCopies] = useState(false);
  const isIn = useOpenTable();
  const placingOf = (group: DocumentGroup): Placing =>
    chosen[group.document_ids[0]!] ??
    suggested(group, nameOf(group), isIn, groups.length === 1 && group.document_ids.length === 1);
  const toRead = groups.filter((group) => placingOf(group).target !== 'store');
  const count = toRead.reduce((sum, group) => sum + group.document_ids.length, 0);
  const cost = sumOf(toRead.map((group) => group.estimated_cost_usd));
  const limit = sumOf(
    toRead.map((group) =>
      /^(stack:|new)/.test(placingOf(group).target) ? costLimit(group.estimated_cost_usd) : group.estimated_cost_usd,
    ),
  );
  useEffect(() => panel.current?.focus(), []);

  const read = useMutation({
    mutationFn: async () => {
      const stacks: string[] = [];
      for (const group of toRead) {
        const stackId = await placeGroup(group, placingOf(group));
        if (stackId !== null) stacks.push(stackId);
        // It is not placed twice if a later one fails.
        const key = group.document_ids[0]!;
        setChosen((before) => ({ ...before, [key]: { ...placingOf(group), target: 'store' } }));
      }
      if (!keepsCopies && uploads.length > 0)
        await actOnEach(
          copies,
          ({ document_id: id }) => api.delete('/api/documents/{document_id}', { path: { document_id: id } }),
          () => undefined,
        );
      return stacks;
    },
    onSuccess: (stacks) => {
      onClose();
      void refresh(queries, 'stacks', 'records', 'runs');
      const only = toRead.length === 1 && toRead[0]!.document_ids.length === 1 ? toRead[0]!.document_ids[0] : undefined;
      if (stacks.length > 0) void navigate({ to: '/tables/$tableId', params: { tableId: stacks[0]! } });
      else if (only !== undefined) void navigate({ to: '/documents/$documentId', params: { documentId: only } });
      else toast(t('adding.started', { count })); // a table and a document show it by themselves
    },
  });
  const canRead = isKnown && count > 0 && !read.isPending;
  useShortcut(READ, () => read.mutate(), canRead);

  return (
    <section
      ref={panel}
      role="dialog"
      aria-labelledby={title}
      tabIndex={-1}
      onKeyDown={(event) => event.key === 'Escape' && !event.defaultPrevented && onClose()}
      className="fixed right-5 bottom-5 z-30 flex max-h-[calc(100dvh-5rem)] w-[min(41.5rem,calc(100vw-1rem))] flex-col overflow-hidden rounded-xl border border-border bg-popover text-foreground shadow-lg outline-none max-sm:inset-x-0 max-sm:bottom-0 max-sm:w-full max-sm:rounded-b-none">
      <div className="flex min-h-13 items-center gap-2 border-b border-border py-2 pr-3 pl-5">
        <h2 id={title} className="shrink-0 text-lg font-semibold">
          {uploads.length > 0
            ? t('adding.title', { count: uploads.length })
            : t('adding.toTable', { count: documentIds.length })}
        </h2>
        {uploads.length > 0 && <Status uploads={uploads} reading={reading} isKnown={isKnown} />}
        <Button kind="quiet" icon={X} label={t('common.close')} className="ml-auto" onClick={onClose} />
      </div>
      <div className="min-h-0 flex-1 overflow-y-auto px-5" role="region" aria-labelledby={title} tabIndex={0}>
        {found.isError && <ErrorNotice error={found.error} onRetry={() => void found.refetch()} />}
        {uploads
          .filter(({ status }) => status === 'failed')
          .map((one) => (
            <UploadRow key={one.id} upload={one} />
          ))}
        {groups.map((group) => (
          <GroupRow
            key={group.document_ids[0]}
            group={group}
            placing={placingOf(group)}
            onChange={(next) => setChosen((before) => ({ ...before, [group.document_ids[0]!]: next }))}
          />
        ))}
        {copies.length > 0 && (
          <Row
            sign={<Copy size={15} />}
            title={t('adding.copies', { count: copies.length })}
            text={t('adding.sameBytes', { names: namesText(copies.map((one) => one.original)) })}>
            {uploads.length > 0 && (
              <Checkbox checked={keepsCopies} onChange={setKeepsCopies}>
                {t('adding.keepCopies')}
              </Checkbox>
            )}
          </Row>
        )}
        {failed.map((one) =>
          one.error_code === 'password' ? (
            <Locked key={one.document_id} document={one} onOpened={() => void found.refetch()} />
          ) : (
            <Row
              key={one.document_id}
              sign={<TriangleAlert size={15} />}
              tone="bg-bad-bg text-bad"
              title={visibleText(one.filename)}
              text={readingErrorText(one.error_code, one.error ?? '')}
            />
          ),
        )}
        {read.isError && (
          <div className="pb-3">
            <ErrorNotice error={read.error} />
          </div>
        )}
      </div>
      <div className="flex flex-wrap items-center justify-between gap-3 border-t border-border bg-sidebar px-5 py-3">
        <p className="text-xs text-muted-foreground">
          {count > 0 &&
            t('adding.sum', {
              count,
              pages: t('common.pages', { count: toRead.reduce((sum, group) => sum + group.pages, 0) }),
            })}
          {limit !== null && limit > 0 && (
            <span className="block">{t('adding.stops', { limit: formatDollars(limit) })}</span>
          )}
        </p>
        <span className="flex gap-2 max-sm:w-full max-sm:justify-end">
          <Button kind="quiet" size="md" onClick={onClose}>
            {uploads.length > 0 ? t('adding.onlyStore') : t('common.cancel')}
          </Button>
          {(count > 0 || !isKnown) && (
            <Button kind="main" size="md" keys="⌘↵" disabled={!canRead} onClick={() => read.mutate()}>
              {cost === null
                ? t('adding.read', { count })
                : t('adding.readCost', { count, cost: formatEstimate(cost) })}
            </Button>
          )}
        </span>
      </div>
    </section>
  );
}

interface StatusProps {
  uploads: readonly Upload[];
  reading: number;
  isKnown: boolean;
}

function Status({ uploads, reading, isKnown }: StatusProps) {
  const done = uploads.filter(({ status }) => status === 'done').length;
  const text = isKnown
    ? t('adding.stored', { size: formatBytes(uploads.reduce((sum, { size }) => sum + size, 0)) })
    : done < uploads.length
      ? t('adding.uploading', { done, count: uploads.length })
      : t('adding.reading', { done: Math.max(0, uploads.length - reading), count: uploads.length });
  const part = done < uploads.length ? done / uploads.length : 1 - reading / uploads.length;
  return (
    <span role="status" className="flex min-w-0 flex-1 items-center gap-2 text-xs text-muted-foreground">
      {isKnown ? (
        <CircleCheck size={15} className="shrink-0 text-ok" aria-hidden="true" />
      ) : (
        <Progress label={text} value={part} max={1} className="max-w-28 max-sm:hidden" />
      )}
      <span className="truncate">{text}</span>
    </span>
  );
}

interface GroupProps {
  group: DocumentGroup;
  placing: Placing;
  onChange: (placing: Placing) => void;
}

function GroupRow({ group, placing, onChange }: GroupProps) {
  const options = useTargets(group);
  const count = group.document_ids.length;
  const title = nameOf(group, count);
  const text =
    group.rule !== null
      ? t('adding.byRule', { name: visibleText(group.rule.name) })
      : group.table !== null
        ? t('adding.likeTable', { name: visibleText(group.table.name), count: group.table.documents })
        : count === 1
          ? t('adding.one')
          : group.columns.length > 0
            ? t('adding.alike', { count: group.columns.length })
            : t('adding.noColumns');
  return (
    <div
      role="group"
      aria-label={title}
      className="grid grid-cols-[2.75rem_minmax(0,1fr)_auto] items-center gap-x-4 gap-y-3 border-b border-line py-4 last:border-0 max-sm:grid-cols-1">
      <span className="relative h-10 w-11 max-sm:hidden">
        {group.document_ids.slice(0, 3).map((id, at) => (
          <Letterhead
            key={id}
            documentId={id}
            isReadable
            className={
              [
                'absolute top-0 left-0 h-9 w-8',
                'absolute top-0.5 left-1.5 h-9 w-8 shadow-sm',
                'absolute top-1 left-3 h-9 w-8 shadow-sm',
              ][at]!
            }
          />
        ))}
      </span>
      <div className="min-w-0">
        <p className="flex flex-wrap items-center gap-2 font-semibold">
          {title}
          {knownTarget(group) === null && count > 1 && (
            <StatusPill tone="accent" icon={Sparkles}>
              {t('adding.newKind')}
            </StatusPill>
          )}
        </p>
        <p className="text-xs text-muted-foreground">{text}</p>
      </div>
      <div className="flex items-center gap-2">
        <span className="text-xs text-muted-foreground max-sm:hidden">{t('adding.addTo')}</span>
        <Select
          className="w-48! max-sm:w-full!"
          label={t('adding.addToFor', { name: title })}
          value={placing.target}
          options={options}
          onChange={(target) => onChange({ ...placing, target })}
        />
      </div>
      {placing.target === 'new' && (
        <div className="col-span-full min-w-0 sm:col-start-2">
          <NewTable group={group} placing={placing} onChange={(next) => onChange({ ...placing, ...next })} />
        </div>
      )}
    </div>
  );
}

function useTargets(group: DocumentGroup): SelectOption<Target>[] {
  const tables = useTableLinks();
  const prompts = useQuery(promptsQuery).data ?? [];
  const known = knownTarget(group);
  const links = tables.map(
    ({ id, isStack, name, count }): SelectOption<Target> => ({
      value: isStack ? `stack:${id}` : `schema:${id}`,
      label: name,
      hint: t('adding.rows', { count }),
    }),
  );
  return [
    ...(known !== null && !links.some((one) => one.value === known.target)
      ? [{ value: known.target, label: known.name }]
      : []),
    ...links,
    ...(group.columns.length > 0 ? [{ value: 'new' as const, label: t('adding.newTable'), icon: Plus }] : []),
    { value: 'agent', label: t('adding.agentTable'), icon: Sparkles, hint: t('adding.agentTableHint') },
    { value: 'fields', label: t('adding.fields'), hint: t('adding.fieldsHint') },
    ...prompts
      .filter((one) => !one.proposed)
      .map((one) => ({
        value: `prompt:${one.id}` as const,
        label: t('adding.prompt', { name: visibleText(one.name) }),
      })),
    { value: 'store', label: t('adding.onlyStore') },
  ];
}

/** The table that is open behind the panel: files dropped there belong into it. */
function useOpenTable(): Target | null {
  const { pathname } = useLocation();
  const [opened] = useState(pathname);
  const [, area, id] = opened.split('/');
  const table = useTableLinks().find((one) => one.id === id);
  if (table === undefined || area !== 'tables') return null;
  return table.isStack ? `stack:${table.id}` : `schema:${table.id}`;
}

interface RowProps {
  sign: ReactNode;
  tone?: string;
  title: string;
  text: string;
  children?: ReactNode;
}

function Row({ sign, tone = 'bg-muted text-muted-foreground', title, text, children }: RowProps) {
  return (
    <div className="grid grid-cols-[2.75rem_minmax(0,1fr)_auto] items-center gap-x-4 gap-y-2 border-b border-line py-3 last:border-0 max-sm:grid-cols-[2rem_minmax(0,1fr)]">
      <span className={`flex size-8 items-center justify-center rounded-md ${tone}`} aria-hidden="true">
        {sign}
      </span>
      <div className="min-w-0">
        <p className="truncate font-semibold">{title}</p>
        <p className="text-xs text-muted-foreground wrap-anywhere">{text}</p>
      </div>
      {children !== undefined && <div className="max-sm:col-start-2">{children}</div>}
    </div>
  );
}

function Locked({ document, onOpened }: { document: DocumentGroups['failed'][number]; onOpened: () => void }) {
  const [password, setPassword] = useState('');
  const open = useChange(
    [],
    () =>
      api.post('/api/documents/{document_id}/read', {
        path: { document_id: document.document_id },
        body: { password },
      }),
    onOpened,
  );
  return (
    <Row
      sign={<Lock size={15} />}
      tone="bg-need-bg text-need"
      title={t('adding.locked')}
      text={t('adding.lockedHint', { name: visibleText(document.filename) })}>
      <Form className="flex gap-2" onSubmit={() => open.mutate()}>
        <Input
          type="password"
          autoComplete="off"
          aria-label={t('adding.passwordOf', { name: visibleText(document.filename) })}
          placeholder={t('adding.password')}
          className="w-32!"
          value={password}
          onValueChange={setPassword}
        />
        <Button size="md" type="submit" disabled={password === '' || open.isPending}>
          {t('adding.open')}
        </Button>
      </Form>
    </Row>
  );
}

type Kind = keyof typeof en.adding.tables;

/** Return what a group is called: "Receipts", with a number "48 receipts". */
function nameOf({ kind, title }: DocumentGroup, count?: number): string {
  if (Object.hasOwn(en.adding.tables, kind) && (kind !== 'document' || title === null))
    return count === undefined ? t(`adding.tables.${kind as Kind}`) : t(`adding.kinds.${kind as Kind}`, { count });
  const name = visibleText(title ?? kind);
  return count === undefined ? name : t('adding.kindCount', { name, number: formatNumber(count) });
}

function namesText(names: readonly string[]): string {
  const shown = names.slice(0, MAX_NAMES).map(visibleText).join(', ');
  return names.length > MAX_NAMES ? t('adding.andMore', { names: shown, count: names.length - MAX_NAMES }) : shown;
}

function sumOf(costs: readonly (number | null)[]): number | null {
  return costs.length === 0 ? null : sumCosts(costs);
}
