/** The views of a table: all rows, those that need a person, and the saved ones, which all members share. */

import { useQuery } from '@tanstack/react-query';
import { Plus, Users } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { api } from '../api/client';
import type { SavedView } from '../api/types';
import { Button } from '../components/ui/Button';
import { Form } from '../components/ui/Form';
import { cn } from '../components/ui/cn';
import { Input } from '../components/ui/Input';
import { Menu, MenuItem } from '../components/ui/Menu';
import { Popover } from '../components/ui/Popover';
import { NeedDot } from '../components/ui/StatusPill';
import { useCanWrite } from '../session/role';
import { formatNumber, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { countQuery, savedViewsQuery } from '../records/tableQueries';
import { parseTableView, rowsOf, type TableView } from '../records/tableView';
import { useChange } from '../shared/useChange';

interface Props {
  table: string;
  view: TableView;
  onView: (view: TableView) => void;
}

export function ViewTabs({ table, view, onView }: Props) {
  const canWrite = useCanWrite();
  const saved = useQuery(savedViewsQuery(table));
  const views = saved.data ?? [];
  const current = views.find((one) => one.id === view.view);
  const { view: _, ...settings } = view;
  const isChanged = current !== undefined && !isSame(settings, settingsOf(current));
  const [naming, setNaming] = useState<'new' | 'rename' | null>(null);
  const [name, setName] = useState('');

  const path = (id: string) => ({ path: { table_id: table, view_id: id } });
  const change = useChange(
    [['records', 'views', table]],
    (act: () => Promise<SavedView | null>) => act(),
    (made) => {
      setNaming(null);
      setName('');
      if (made !== null) onView({ ...settingsOf(made), view: made.id });
    },
  );
  const save = (to: { name?: string; settings?: TableView }, id: string) =>
    change.mutate(() =>
      api.patch('/api/tables/{table_id}/views/{view_id}', { ...path(id), body: to as Record<string, never> }),
    );
  const submit = () => {
    const given = name.trim();
    if (given === '' || change.isPending) return;
    if (naming === 'rename' && current !== undefined) return save({ name: given }, current.id);
    const params = { path: { table_id: table } };
    const body = { name: given, settings: settings as Record<string, never> };
    change.mutate(() => api.post('/api/tables/{table_id}/views', { ...params, body }));
  };
  const list = view.list === undefined ? {} : { list: view.list };
  const isAll = view.view === undefined && isSame(settings, list);
  const isOpen = view.view === undefined && isSame(settings, { ...list, cells: 'to_review' });
  return (
    <>
      <nav
        aria-label={t('tables.views')}
        className="flex h-full min-w-0 items-stretch gap-1 overflow-x-auto [scrollbar-width:none]">
        <Tab isCurrent={isAll} count={<Count table={table} view={list} />} onOpen={() => onView(list)}>
          {t('tables.all')}
        </Tab>
        <Tab
          isCurrent={isOpen}
          count={<Count table={table} view={{ ...list, cells: 'to_review' }} />}
          onOpen={() => onView({ ...list, cells: 'to_review' })}>
          <OpenDot table={table} view={{ ...list, cells: 'to_review' }} />
          {t('tables.needsYou')}
        </Tab>
        {views.map((one) => (
          <Tab
            key={one.id}
            isCurrent={one.id === view.view}
            count={<Count table={table} view={settingsOf(one)} />}
            onOpen={() => onView({ ...settingsOf(one), view: one.id })}>
            {visibleText(one.name)}
            {one.id === view.view && isChanged && (
              <span className="text-muted-foreground">{t('tables.viewChanged')}</span>
            )}
          </Tab>
        ))}
      </nav>
      {canWrite && current !== undefined && (
        <Menu
          align="start"
          trigger={<Button kind="quiet" icon={Users} label={t('tables.viewActions', { name: current.name })} />}>
          <MenuItem disabled={!isChanged} onChoose={() => save({ settings }, current.id)}>
            {t('tables.saveView')}
          </MenuItem>
          <MenuItem
            onChoose={() => {
              setName(current.name);
              setNaming('rename');
            }}>
            {t('tables.renameView')}
          </MenuItem>
          <MenuItem
            danger
            onChoose={() =>
              change.mutate(async () => {
                await api.delete('/api/tables/{table_id}/views/{view_id}', path(current.id));
                onView(list);
                return null;
              })
            }>
            {t('common.delete')}
          </MenuItem>
        </Menu>
      )}
      {canWrite && (
        <Popover
          open={naming !== null}
          onOpenChange={(is) => {
            setNaming(is ? 'new' : null);
            setName('');
          }}
          title={t(naming === 'rename' ? 'tables.renameView' : 'tables.newView')}
          trigger={<Button kind="quiet" icon={Plus} label={t('tables.newView')} />}>
          <Form className="flex gap-2" onSubmit={submit}>
            <Input
              autoFocus
              aria-label={t('tables.viewName')}
              placeholder={t('tables.viewNameHint')}
              maxLength={200}
              value={name}
              onValueChange={setName}
            />
            <Button kind="main" size="md" type="submit" disabled={name.trim() === '' || change.isPending}>
              {t('common.save')}
            </Button>
          </Form>
          {naming !== 'rename' && <p className="mt-2 text-xs text-muted-foreground">{t('tables.newViewHint')}</p>}
        </Popover>
      )}
    </>
  );
}

function Tab({
  isCurrent,
  count,
  onOpen,
  children,
}: {
  isCurrent: boolean;
  count: ReactNode;
  onOpen: () => void;
  children: ReactNode;
}) {
  return (
    <button
      type="button"
      aria-current={isCurrent ? 'true' : undefined}
      onClick={onOpen}
      className={cn(
        'flex shrink-0 items-center gap-1.5 border-b-2 px-2 text-sm whitespace-nowrap outline-offset-[-2px]',
        isCurrent
          ? 'border-primary font-medium text-foreground'
          : 'border-transparent text-muted-foreground hover:text-foreground',
      )}>
      {children}
      {count}
    </button>
  );
}

function Count({ table, view }: { table: string; view: TableView }) {
  const count = useQuery(countQuery({ table, ...rowsOf(view) }));
  return count.data === undefined ? null : (
    <span className="font-normal text-muted-foreground">{formatNumber(count.data)}</span>
  );
}

function OpenDot({ table, view }: { table: string; view: TableView }) {
  return (useQuery(countQuery({ table, ...rowsOf(view) })).data ?? 0) > 0 && <NeedDot text="" />;
}

function settingsOf(one: SavedView): TableView {
  const { view: _, ...settings } = parseTableView(one.settings);
  return settings;
}

function isSame(one: TableView, other: TableView): boolean {
  const sorted = (view: TableView) => JSON.stringify(Object.entries(view).toSorted());
  return sorted(one) === sorted(other);
}
