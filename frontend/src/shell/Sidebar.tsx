/** The navigation: a sidebar of words, of icons on narrow windows and at 200 % zoom, and a bar at the foot of phones. */

import { useQuery } from '@tanstack/react-query';
import { Link, useLocation } from '@tanstack/react-router';
import { Camera, ChevronDown, ChevronRight, Info, Search } from 'lucide-react';
import { lazy, Suspense, useRef, type ReactNode } from 'react';
import { Button } from '../components/ui/Button';
import { cn } from '../components/ui/cn';
import { CountBadge } from '../components/ui/CountBadge';
import { Kbd } from '../components/ui/Kbd';
import { NeedDot } from '../components/ui/StatusPill';
import { tooltip } from '../components/ui/Tooltip';
import { inboxCountsQuery, total } from '../inbox/inboxQueries';
import { configQuery } from '../session/config';
import { useCanWrite } from '../session/role';
import { formatNumber } from '../shared/format';
import { t } from '../shared/i18n';
import { persisted, usePersisted } from '../shared/persisted';
import { AREAS, SETUP, type Area } from './areas';
import { useTableLinks } from '../records/tableLinks';

// Menus are loaded after the first paint.
const OrganisationMenu = lazy(async () => ({ default: (await import('./AccountMenu')).OrganisationMenu }));
const PersonMenu = lazy(async () => ({ default: (await import('./AccountMenu')).PersonMenu }));

/** More are behind "All tables". */
const MAX_TABLES = 8;
const tablesShown = persisted<boolean>('fieldmark.tables', (stored) => stored !== false);

const entryClass = cn(
  'flex min-h-7 w-full items-center gap-2.5 rounded-md px-2 text-sm text-foreground no-underline hover:bg-hover',
  'aria-[current=page]:bg-accent aria-[current=page]:font-medium max-lg:min-h-9 max-lg:justify-center max-lg:px-0',
);

interface Props {
  onSearch: () => void;
  onShowShortcuts: () => void;
}

export function Sidebar({ onSearch, onShowShortcuts }: Props) {
  return (
    <div className="flex min-h-0 flex-col border-r border-border bg-sidebar p-2 max-sm:hidden">
      <Suspense fallback={<span className="h-10" />}>
        <OrganisationMenu />
      </Suspense>
      <SearchButton onSearch={onSearch} />
      <nav aria-label={t('areas.main')} className="mt-2 min-h-0 flex-1 overflow-x-hidden overflow-y-auto">
        <ul className="grid gap-0.5">
          {AREAS.map((area) => (
            <li key={area.area}>{area.area === 'tables' ? <TablesEntry area={area} /> : <Entry area={area} />}</li>
          ))}
        </ul>
        <h2 className="mt-4 mb-1 px-2 text-xs font-normal text-muted-foreground max-lg:sr-only" id="setup-areas">
          {t('areas.setup')}
        </h2>
        <ul className="grid gap-0.5" aria-labelledby="setup-areas">
          {SETUP.map((area) => (
            <li key={area.area}>
              <Entry area={area} />
            </li>
          ))}
        </ul>
      </nav>
      <DemoCard />
      <Suspense fallback={<span className="mt-2 h-10" />}>
        <PersonMenu onShowShortcuts={onShowShortcuts} />
      </Suspense>
    </div>
  );
}

function SearchButton({ onSearch }: { onSearch: () => void }) {
  const label = t('command.label');
  return (
    <button
      type="button"
      aria-keyshortcuts="Control+K"
      {...tooltip(label, '⌘K', 'right')}
      className="mt-2 flex min-h-8 w-full items-center gap-2.5 rounded-md border border-input bg-background px-2 text-muted-foreground hover:bg-hover max-lg:min-h-9 max-lg:justify-center max-lg:border-transparent max-lg:bg-transparent max-lg:px-0"
      onClick={onSearch}>
      <Search size={16} strokeWidth={1.75} className="shrink-0 max-lg:size-5" aria-hidden="true" />
      <span className="min-w-0 flex-1 truncate text-left max-lg:sr-only">{label}</span>
      <span className="max-lg:hidden">
        <Kbd>⌘K</Kbd>
      </span>
    </button>
  );
}

/** `isExact`: not current in a part of the area, which has an entry of its own. */
function Entry({ area, isExact = false }: { area: Area; isExact?: boolean }) {
  const Sign = area.icon;
  const name = t(`areas.${area.area}`);
  return (
    <Link
      to={area.to}
      activeOptions={{ exact: isExact }}
      className={cn(entryClass, 'relative')}
      {...tooltip(name, 'keys' in area ? `G ${area.keys.toUpperCase()}` : undefined, 'right')}>
      <Sign size={16} strokeWidth={1.75} className="shrink-0 max-lg:size-5" aria-hidden="true" />
      <span className="min-w-0 flex-1 truncate max-lg:sr-only">{name}</span>
      {area.area === 'inbox' && (
        <span className="max-lg:absolute max-lg:-top-0.5 max-lg:right-0">
          <InboxCount />
        </span>
      )}
    </Link>
  );
}

function InboxCount() {
  const { data } = useQuery(inboxCountsQuery);
  const all = total(data);
  return <CountBadge count={all?.count ?? 0} isMore={all?.is_more ?? false} />;
}

function TablesEntry({ area }: { area: Area }) {
  const tables = useTableLinks();
  const isShown = usePersisted(tablesShown);
  const { pathname } = useLocation();
  const Chevron = isShown ? ChevronDown : ChevronRight;
  return (
    <>
      <div className="relative">
        <Entry area={area} isExact={isShown && tables.length > 0} />
        {tables.length > 0 && (
          <button
            type="button"
            aria-expanded={isShown}
            aria-label={t('areas.showTables')}
            className="absolute top-0.5 right-1 flex size-6 items-center justify-center rounded-md text-muted-foreground hover:bg-muted max-lg:hidden"
            onClick={() => tablesShown.set(!isShown)}>
            <Chevron size={14} aria-hidden="true" />
          </button>
        )}
      </div>
      {isShown && tables.length > 0 && (
        <ul className="mt-0.5 grid gap-0.5 max-lg:hidden" aria-label={t('areas.tables')}>
          {tables.slice(0, MAX_TABLES).map((table) => (
            <li key={table.id}>
              <Link {...table.link} className={cn(entryClass, 'pl-8.5')} title={table.name}>
                <span className="truncate">{table.name}</span>
                {table.toReview > 0 && <NeedDot text={t('tables.needYou', { count: table.toReview })} />}
                <span className="ml-auto text-xs font-normal text-muted-foreground">{formatNumber(table.count)}</span>
              </Link>
            </li>
          ))}
          {tables.length > MAX_TABLES && pathname !== '/tables' && (
            <li>
              <Link to="/tables" className={cn(entryClass, 'pl-8.5 text-muted-foreground')}>
                {t('areas.allTables')}
              </Link>
            </li>
          )}
        </ul>
      )}
    </>
  );
}

function DemoCard() {
  const config = useQuery(configQuery);
  if (config.data?.offline_model !== true) return null;
  return (
    <section
      aria-label={t('shell.demo')}
      className="mt-2 flex gap-2 rounded-lg border border-border bg-card p-2.5 text-xs max-lg:hidden">
      <Info size={14} className="mt-px shrink-0 text-need-dot" aria-hidden="true" />
      <div>
        <p className="font-medium">{t('shell.demo')}</p>
        <p className="text-muted-foreground">{t('shell.demoHint')}</p>
      </div>
    </section>
  );
}

/** On phones: a row above the page for what has no place in the bar, and the bar. */
export function PhoneHead({ onSearch, onShowShortcuts }: Props) {
  return (
    <div className="flex items-center gap-1 border-b border-border bg-sidebar px-2 sm:hidden">
      <Suspense>
        <OrganisationMenu isPhone />
      </Suspense>
      <span className="flex-1" />
      <Button kind="quiet" size="lg" icon={Search} label={t('command.label')} onClick={onSearch} />
      <Suspense fallback={<span className="h-11" />}>
        <PersonMenu isPhone onShowShortcuts={onShowShortcuts} />
      </Suspense>
    </div>
  );
}

const PHONE_AREAS = ['home', 'inbox', 'tables', 'ask'] as const;

export function PhoneBar({ onFiles }: { onFiles: (files: FileList | null) => void }) {
  const canWrite = useCanWrite();
  const areas = PHONE_AREAS.map((name) => AREAS.find((one) => one.area === name)!);
  return (
    <nav
      aria-label={t('areas.main')}
      className="grid auto-cols-fr grid-flow-col items-center border-t border-border bg-background pb-[env(safe-area-inset-bottom)] sm:hidden">
      {areas.slice(0, 2).map((area) => (
        <PhoneEntry key={area.area} area={area} />
      ))}
      {canWrite && (
        <CameraButton onFiles={onFiles}>
          <Camera size={22} strokeWidth={1.75} aria-hidden="true" />
        </CameraButton>
      )}
      {areas.slice(2).map((area) => (
        <PhoneEntry key={area.area} area={area} />
      ))}
    </nav>
  );
}

function PhoneEntry({ area }: { area: Area }) {
  const Sign = area.icon;
  return (
    <Link
      to={area.to}
      className="relative flex min-h-14 flex-col items-center justify-center gap-0.5 text-2xs text-muted-foreground no-underline aria-[current=page]:font-medium aria-[current=page]:text-link">
      <Sign size={21} strokeWidth={1.75} aria-hidden="true" />
      {t(`areas.${area.area}`)}
      <span className="absolute top-1 left-1/2 ml-1">{area.area === 'inbox' && <InboxCount />}</span>
    </Link>
  );
}

function CameraButton({ onFiles, children }: { onFiles: (files: FileList | null) => void; children: ReactNode }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <div className="flex justify-center">
      <button
        type="button"
        aria-label={t('shell.camera')}
        className="flex size-12 items-center justify-center rounded-full bg-primary text-primary-foreground shadow-md"
        onClick={() => input.current?.click()}>
        {children}
      </button>
      <input
        ref={input}
        type="file"
        accept="image/*,application/pdf"
        capture="environment"
        hidden
        onChange={(event) => {
          onFiles(event.target.files);
          event.target.value = '';
        }}
      />
    </div>
  );
}
