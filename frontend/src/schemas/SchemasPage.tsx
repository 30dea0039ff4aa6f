/** Schemas: which there are and how often each is used; one beside the list, to edit and publish. */

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router';
import { Braces, Ellipsis, Merge, Pencil, Plus, Trash2 } from 'lucide-react';
import { useEffect, useState } from 'react';
import { api } from '../api/client';
import { Button } from '../components/ui/Button';
import { cn } from '../components/ui/cn';
import { Dialog, DialogActions } from '../components/ui/Dialog';
import { EmptyState } from '../components/ui/EmptyState';
import { Field } from '../components/ui/Field';
import { LoadingRows } from '../components/ui/Loading';
import { Menu, MenuItem } from '../components/ui/Menu';
import { ErrorNotice } from '../components/ui/Notice';
import { Select } from '../components/ui/Select';
import { StatusPill } from '../components/ui/StatusPill';
import { Tabs } from '../components/ui/Tabs';
import { toast } from '../components/ui/Toast';
import en from '../locales/en.json';
import { useCanWrite } from '../session/role';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { useTableLinks } from '../records/tableLinks';
import { useInfiniteQuery } from '@tanstack/react-query';
import { stacksQuery } from '../records/stackQueries';
import { tablesQuery } from '../records/tablesQuery';
import { DraftPanel } from './DraftPanel';
import { FieldsEditor } from './FieldsEditor';
import { rowsOf, type Shape } from './schemaModel';
import { examplesQuery, filledQuery, promptsOfQuery, templatesQuery } from './schemaQueries';
import { PromptsTab, UsedTab, VersionsTab } from './SchemaTabs';
import { refresh } from '../api/queryKeys';
import { schemaQuery, schemasQuery } from '../fields/extractionQueries';
import { NameForm } from '../shared/NameForm';

const schemaRoute = getRouteApi('/schemas/$schemaId');
const EMPTY: Shape = { type: 'object', properties: {} };
const TABS = ['fields', 'prompts', 'versions', 'used'] as const;
type Tab = (typeof TABS)[number];

export function SchemasPage() {
  return <Schemas schemaId={null} />;
}

export function SchemaPage() {
  return <Schemas schemaId={schemaRoute.useParams().schemaId} />;
}

/** The tables of a schema, and its number of documents. */
function useUses() {
  const stacks = useInfiniteQuery(stacksQuery).data?.pages.flatMap((page) => page.items) ?? [];
  const tables = useQuery(tablesQuery).data ?? [];
  const links = useTableLinks();
  return (schemaId: string) => {
    const ids = [schemaId, ...stacks.filter((one) => one.schema_id === schemaId).map(({ id }) => id)];
    return {
      tables: links.filter(({ id }) => ids.includes(id)),
      documents: tables.find((one) => one.schema_id === schemaId)?.records ?? 0,
    };
  };
}

function Schemas({ schemaId }: { schemaId: string | null }) {
  const listed = useQuery(schemasQuery);
  const canWrite = useCanWrite();
  const uses = useUses();
  const [isCreating, setCreating] = useState(false);
  const tables = useQuery(tablesQuery);
  // The most used first; until that is known, none is opened.
  const list = (listed.data ?? []).toSorted(
    (one, other) => uses(other.id).documents - uses(one.id).documents || one.name.localeCompare(other.name),
  );
  const shownId = schemaId ?? (tables.isPending ? undefined : list[0]?.id);
  const create = canWrite && (
    <Button kind="quiet" icon={Plus} label={t('schemas.create')} onClick={() => setCreating(true)} />
  );
  return (
    <div className="group/schemas flex h-full min-h-0 bg-background">
      <div
        className={cn(
          'flex min-h-0 flex-col border-r border-border max-lg:w-full lg:w-52 lg:shrink-0',
          'xl:max-[96rem]:group-has-data-draft/schemas:hidden',
          schemaId !== null && 'max-lg:hidden',
        )}>
        <div className="flex h-12 shrink-0 items-center justify-between border-b border-border px-4">
          <h1 className="text-lg font-semibold">{t('areas.schemas')}</h1>
          {create}
        </div>
        {listed.isError && <ErrorNotice error={listed.error} onRetry={() => void listed.refetch()} />}
        <nav aria-label={t('areas.schemas')} className="min-h-0 flex-1 overflow-y-auto p-2">
          {list.map((one) => {
            const { tables, documents } = uses(one.id);
            return (
              <Link
                key={one.id}
                to="/schemas/$schemaId"
                params={{ schemaId: one.id }}
                aria-current={one.id === shownId ? 'page' : undefined}
                className="block rounded-md px-2 py-1.5 text-foreground no-underline hover:bg-hover aria-[current=page]:bg-accent">
                <span className="flex items-center justify-between gap-2">
                  <span className="truncate font-medium">{visibleText(one.name)}</span>
                  {one.proposed && <StatusPill tone="accent">{t('statuses.proposed')}</StatusPill>}
                </span>
                <span className="block truncate text-xs text-muted-foreground">
                  {documents === 0
                    ? t('schemas.notUsed')
                    : `${t('schemas.inTables', { count: tables.length })}, ${t('common.documents', { count: documents })}`}
                </span>
              </Link>
            );
          })}
        </nav>
      </div>
      {shownId !== undefined ? (
        <div className={cn('flex min-w-0 flex-1', schemaId === null && 'max-lg:hidden')}>
          <OneSchema key={shownId} schemaId={shownId} uses={uses(shownId)} />
        </div>
      ) : listed.isPending || tables.isPending ? (
        <LoadingRows height={44} />
      ) : (
        <div className="flex-1">
          <EmptyState icon={Braces} title={t('schemas.none')} text={t('schemas.hint')}>
            {canWrite && (
              <Button kind="main" icon={Plus} onClick={() => setCreating(true)}>
                {t('schemas.create')}
              </Button>
            )}
          </EmptyState>
        </div>
      )}
      {isCreating && <CreateDialog onClose={() => setCreating(false)} />}
    </div>
  );
}

const draftKey = (schemaId: string, revid: string) => `fieldmark.schemaDraft ${schemaId} ${revid}`;

/** The draft of a version, kept on this device. */
function useDraft(schemaId: string, revid: string | undefined) {
  const [draft, setDraft] = useState<Shape | null>(null);
  const key = draftKey(schemaId, revid ?? '');
  useEffect(() => {
    if (revid === undefined) return;
    const stored = localStorage.getItem(key);
    setDraft(stored === null ? null : (JSON.parse(stored) as Shape));
  }, [key, revid]);
  return [
    draft,
    (next: Shape | null) => {
      if (next === null) localStorage.removeItem(key);
      else localStorage.setItem(key, JSON.stringify(next));
      setDraft(next);
    },
  ] as const;
}

interface OneProps {
  schemaId: string;
  uses: ReturnType<ReturnType<typeof useUses>>;
}

function OneSchema({ schemaId, uses }: OneProps) {
  const found = useQuery(schemaQuery(schemaId));
  const canWrite = useCanWrite();
  const [tab, setTab] = useState<Tab>('fields');
  const [asked, setAsked] = useState<'rename' | 'merge' | 'delete' | null>(null);
  const filled = useQuery(filledQuery(schemaId)).data;
  const example = useQuery(examplesQuery(schemaId)).data?.extraction ?? null;
  const prompts = useQuery(promptsOfQuery(schemaId)).data?.length;
  const schema = found.data;
  const [draft, setDraft] = useDraft(schemaId, schema?.schema_revid);
  if (found.isError)
    return (
      <div className="flex-1 p-4">
        <ErrorNotice error={found.error} onRetry={() => void found.refetch()} />
      </div>
    );
  if (schema === undefined)
    return (
      <div className="min-w-0 flex-1">
        <div className="h-12 border-b border-border" />
        <div className="h-10 border-b border-border" />
        <LoadingRows height={44} />
      </div>
    );
  const stored = (schema.schema ?? EMPTY) as Shape;
  const shown = draft ?? stored;
  const mayWrite = canWrite && !schema.deleted;
  const change = (next: Shape) => setDraft(JSON.stringify(next) === JSON.stringify(stored) ? null : next);
  return (
    <div className="flex min-w-0 flex-1 max-xl:flex-col max-xl:overflow-y-auto">
      <div className="flex min-h-0 min-w-0 flex-1 flex-col max-xl:min-h-[30rem] max-xl:flex-none">
        <div className="flex min-h-12 flex-wrap items-center gap-2 border-b border-border px-4">
          <Link to="/schemas" className="text-link lg:hidden xl:max-[96rem]:group-has-data-draft/schemas:inline">
            {t('areas.schemas')}
          </Link>
          <h2 className="min-w-0 truncate text-lg font-semibold">{visibleText(schema.name)}</h2>
          {mayWrite && (
            <Button kind="quiet" icon={Pencil} label={t('schemas.rename')} onClick={() => setAsked('rename')} />
          )}
          <StatusPill tone={draft === null ? 'plain' : 'accent'}>
            {draft === null
              ? t('schemas.versionShort', { number: schema.number })
              : t('schemas.draftOf', { number: schema.number + 1 })}
          </StatusPill>
          <span className="flex-1" />
          {mayWrite && (
            <Menu trigger={<Button kind="quiet" icon={Ellipsis} label={t('common.actions')} />}>
              <MenuItem icon={Merge} onChoose={() => setAsked('merge')}>
                {t('schemas.merge')}
              </MenuItem>
              <MenuItem icon={Trash2} danger onChoose={() => setAsked('delete')}>
                {t('common.delete')}
              </MenuItem>
            </Menu>
          )}
        </div>
        <Tabs
          label={t('schemas.parts')}
          value={tab}
          onChange={setTab}
          tabs={TABS.map((value) => ({
            value,
            label: t(`schemas.tabs.${value}`),
            count: { fields: rowsOf(shown).length, prompts, versions: schema.number, used: uses.tables.length }[value],
          }))}
        />
        {tab === 'fields' && (
          <FieldsEditor
            stored={stored}
            schema={shown}
            canWrite={mayWrite}
            onChange={change}
            filled={filled}
            example={example}
          />
        )}
        {tab === 'prompts' && <PromptsTab schemaId={schemaId} name={schema.name} canWrite={mayWrite} />}
        {tab === 'versions' && <VersionsTab schemaId={schemaId} />}
        {tab === 'used' && <UsedTab {...uses} />}
      </div>
      {draft !== null && tab === 'fields' && (
        <aside
          data-draft
          aria-label={t('schemas.draft')}
          className="flex min-h-0 shrink-0 flex-col border-border bg-sidebar max-xl:contents xl:w-88 xl:border-l">
          <DraftPanel
            schemaId={schemaId}
            revid={schema.schema_revid}
            number={schema.number}
            stored={stored}
            draft={draft}
            onPublished={() => setDraft(null)}
            onDiscard={() => setDraft(null)}
          />
        </aside>
      )}
      {asked === 'rename' && <RenameDialog id={schemaId} name={schema.name} onClose={() => setAsked(null)} />}
      {asked === 'merge' && <MergeDialog id={schemaId} name={schema.name} uses={uses} onClose={() => setAsked(null)} />}
      {asked === 'delete' && (
        <DeleteDialog id={schemaId} name={schema.name} uses={uses} onClose={() => setAsked(null)} />
      )}
    </div>
  );
}

/** A change of a schema: reloads what shows it, closes the dialog, and opens a schema or the list. */
function useChange<Input = void>(
  act: (input: Input) => Promise<unknown>,
  onClose: () => void,
  open?: (made: unknown) => string | null,
) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  return useMutation({
    mutationFn: act,
    onSuccess: async (made) => {
      void refresh(queries, 'schemas', 'records', 'stacks', 'prompts');
      onClose();
      const id = open?.(made);
      if (typeof id === 'string') await navigate({ to: '/schemas/$schemaId', params: { schemaId: id } });
      else if (id === null) await navigate({ to: '/schemas' });
    },
  });
}

function CreateDialog({ onClose }: { onClose: () => void }) {
  const templates = useQuery(templatesQuery).data ?? [];
  const [chosen, setChosen] = useState('');
  const schema = templates.find((one) => one.name === chosen)?.schema ?? EMPTY;
  const create = useChange(
    (name: string) => api.post('/api/schemas', { body: { name, schema } }),
    onClose,
    (made) => (made as { id: string }).id,
  );
  return (
    <Dialog title={t('schemas.create')} open onClose={onClose}>
      <Field label={t('schemas.template')}>
        <Select
          value={chosen}
          options={['', ...templates.map(({ name }) => name)].map((value) => ({ value, label: templateText(value) }))}
          onChange={setChosen}
        />
      </Field>
      <NameForm
        key={chosen}
        name={chosen === '' ? '' : templateText(chosen)}
        field={t('schemas.name')}
        label={t('schemas.create')}
        saving={create}
        onClose={onClose}
      />
    </Dialog>
  );
}

function templateText(name: string): string {
  const texts: Readonly<Record<string, unknown>> = en.schemas.templates;
  if (name === '') return t('schemas.noTemplate');
  return Object.hasOwn(texts, name) ? t(`schemas.templates.${name as keyof typeof en.schemas.templates}`) : name;
}

function RenameDialog({ id, name, onClose }: { id: string; name: string; onClose: () => void }) {
  const rename = useChange(
    (next: string) => api.patch('/api/schemas/{schema_id}', { path: { schema_id: id }, body: { name: next } }),
    onClose,
  );
  return (
    <Dialog title={t('schemas.rename')} open onClose={onClose}>
      <NameForm name={name} field={t('schemas.name')} label={t('common.save')} saving={rename} onClose={onClose} />
    </Dialog>
  );
}

interface DialogProps {
  id: string;
  name: string;
  uses: OneProps['uses'];
  onClose: () => void;
}

function MergeDialog({ id, name, uses, onClose }: DialogProps) {
  const others = (useQuery(schemasQuery).data ?? []).filter((one) => one.id !== id && !one.proposed);
  const [into, setInto] = useState<string | null>(null);
  const merge = useChange(
    async () => {
      let skipped = 0;
      for (let before: string | null | undefined; before !== null; ) {
        const merged = await api.post('/api/schemas/{schema_id}/merge', {
          path: { schema_id: id },
          body: { into: into!, limit: 200, ...(before !== undefined && { before }) },
        });
        skipped += merged.skipped.length;
        before = merged.next;
      }
      if (skipped > 0) toast(t('schemas.mergeSkipped', { count: skipped }), { urgent: true });
    },
    onClose,
    () => into,
  );
  return (
    <Dialog title={t('schemas.mergeTitle', { name: visibleText(name) })} open onClose={onClose}>
      <p className="text-muted-foreground">{t('schemas.mergeHint', { count: uses.documents })}</p>
      <Field label={t('schemas.into')}>
        <Select
          value={into}
          placeholder={t('schemas.chooseOne')}
          options={others.map((one) => ({ value: one.id, label: visibleText(one.name) }))}
          onChange={setInto}
        />
      </Field>
      {merge.isError && <ErrorNotice error={merge.error} />}
      <DialogActions
        label={t('schemas.merge')}
        disabled={into === null || merge.isPending}
        onClose={onClose}
        onConfirm={() => merge.mutate()}
      />
    </Dialog>
  );
}

function DeleteDialog({ id, name, uses, onClose }: DialogProps) {
  const remove = useChange(
    () => api.delete('/api/schemas/{schema_id}', { path: { schema_id: id } }),
    onClose,
    () => null,
  );
  return (
    <Dialog title={t('common.deleteQuestion', { name: visibleText(name) })} open onClose={onClose}>
      <p className="text-muted-foreground">
        {uses.documents > 0 ? t('schemas.deleteUsed', { count: uses.documents }) : t('schemas.deleteUnused')}
      </p>
      {remove.isError && <ErrorNotice error={remove.error} />}
      <DialogActions
        danger
        label={t('common.delete')}
        disabled={remove.isPending}
        onClose={onClose}
        onConfirm={() => remove.mutate()}
      />
    </Dialog>
  );
}
