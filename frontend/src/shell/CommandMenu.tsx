/** ⌘K: finds documents by name and text, tables, areas and actions. */

import { keepPreviousData, queryOptions, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { CircleHelp, FileText, Keyboard, Moon, Search, Sun, Table2 } from 'lucide-react';
import { useDeferredValue, useState, type KeyboardEvent } from 'react';
import { api } from '../api/client';
import { Command, type CommandGroup, type CommandItem } from '../components/ui/Command';
import { Kbd } from '../components/ui/Kbd';
import { documentsQuery } from '../documents/documentQueries';
import { stageStatus } from '../documents/StageBadge';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { usePersisted } from '../shared/persisted';
import { theme } from '../shared/theme';
import { AREAS, SETUP } from './areas';
import { useTableLinks } from '../records/tableLinks';

const MAX_FOUND = 5;

/** Values, and other text of pages. */
const textQuery = (q: string) =>
  queryOptions({
    queryKey: ['search', 'command', q],
    queryFn: async ({ signal }) => (await api.get('/api/search', { query: { q, limit: MAX_FOUND }, signal })).hits,
    placeholderData: keepPreviousData,
    staleTime: 30_000,
  });

interface Props {
  onClose: () => void;
  onShowShortcuts: () => void;
}

export function CommandMenu({ onClose, onShowShortcuts }: Props) {
  const navigate = useNavigate();
  const [text, setText] = useState('');
  const q = useDeferredValue(text.trim());
  const isSearch = q.length >= 2;
  const isDark = usePersisted(theme) === 'dark';
  const named = useInfiniteQuery({
    ...documentsQuery(isSearch ? { name: q } : {}),
    placeholderData: keepPreviousData,
    refetchInterval: false,
  });
  const found = useQuery({ ...textQuery(q), enabled: isSearch });
  const tables = useTableLinks();

  const has = (label: string) => label.toLowerCase().includes(q.toLowerCase());
  const act = (go: () => void) => () => {
    onClose();
    go();
  };
  const ask = act(() => void navigate({ to: '/ask', search: q === '' ? {} : { question: q } }));

  const documents = (named.data?.pages[0]?.items ?? [])
    .slice(0, MAX_FOUND)
    .map(
      (one): CommandItem => ({
        id: `document ${one.id}`,
        sign: <FileText size={16} strokeWidth={1.75} />,
        label: visibleText(one.filename),
        hint: stageStatus(one.stage).label,
        act: act(() => void navigate({ to: '/documents/$documentId', params: { documentId: one.id } })),
      }),
    );
  const hits = (isSearch ? (found.data ?? []) : []).map(
    (hit, index): CommandItem => ({
      id: `text ${index} ${hit.document_id}`,
      sign: <Search size={16} strokeWidth={1.75} />,
      label: visibleText(hit.filename),
      hint: `“…${visibleText(excerpt(hit))}…”`,
      end: t('common.pageFirst', { page: hit.page }),
      act: act(
        () =>
          void navigate({
            to: '/documents/$documentId',
            params: { documentId: hit.document_id },
            search: { page: hit.page },
          }),
      ),
    }),
  );
  const areas = [...AREAS, ...SETUP]
    .map((area): CommandItem & { name: string } => ({
      id: `area ${area.area}`,
      name: t('command.goTo', { area: t(`areas.${area.area}`) }),
      sign: <area.icon size={16} strokeWidth={1.75} />,
      label: t('command.goTo', { area: t(`areas.${area.area}`) }),
      end: 'keys' in area && <Kbd>{`G ${area.keys.toUpperCase()}`}</Kbd>,
      act: act(() => void navigate({ to: area.to })),
    }))
    .filter(({ name }) => has(name));
  const actions = [
    {
      id: 'theme',
      label: t(isDark ? 'command.light' : 'command.dark'),
      sign: isDark ? <Sun size={16} /> : <Moon size={16} />,
      act: act(() => theme.set(isDark ? 'light' : 'dark')),
    },
    {
      id: 'shortcuts',
      label: t('account.shortcuts'),
      sign: <Keyboard size={16} />,
      end: <Kbd>?</Kbd>,
      act: act(onShowShortcuts),
    },
  ].filter(({ label }) => has(label));
  const always: CommandItem[] = isSearch
    ? [
        {
          id: 'ask',
          label: t('command.ask', { text: q }),
          hint: t('command.askHint'),
          sign: <CircleHelp size={16} strokeWidth={1.75} />,
          end: <Kbd>Tab</Kbd>,
          act: ask,
        },
        {
          id: 'all text',
          label: t('command.allText', { text: q }),
          sign: <Search size={16} strokeWidth={1.75} />,
          act: act(() => void navigate({ to: '/ask', search: { find: q } })),
        },
      ]
    : [];

  const groups: CommandGroup[] = [
    {
      id: 'tables',
      label: t('areas.tables'),
      items: tables
        .filter(({ name }) => has(name))
        .slice(0, MAX_FOUND)
        .map(
          ({ id, name, link }): CommandItem => ({
            id: `table ${id}`,
            sign: <Table2 size={16} strokeWidth={1.75} />,
            label: name,
            act: act(() => void navigate(link)),
          }),
        ),
    },
    { id: 'documents', label: t(isSearch ? 'areas.documents' : 'command.newest'), items: documents },
    { id: 'texts', label: t('command.texts'), items: hits },
    { id: 'do', label: t('command.actions'), items: [...always, ...areas, ...actions] },
  ];
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Tab' || event.shiftKey || !isSearch) return;
    event.preventDefault();
    ask();
  };
  return (
    <Command
      open
      onClose={onClose}
      label={t('command.label')}
      text={text}
      onText={setText}
      groups={groups}
      empty={t('search.none')}
      onKeyDown={onKeyDown}
      foot={
        <>
          <span className="flex items-center gap-1">
            <Kbd>↑</Kbd>
            <Kbd>↓</Kbd> {t('command.choose')}
          </span>
          <span className="flex items-center gap-1">
            <Kbd>↵</Kbd> {t('command.open')}
          </span>
        </>
      }
    />
  );
}

/** The first match of a hit, with a few words around it. */
function excerpt({ snippet, marks }: { snippet: string; marks: readonly { start: number }[] }): string {
  const start = Math.max(0, (marks[0]?.start ?? 0) - 24);
  return [...snippet]
    .slice(start, start + 90)
    .join('')
    .trim();
}
