/** The frame around every area: the navigation, ⌘K, the shortcuts dialog and the toasts. */

import { Outlet, useLocation, useNavigate, useRouterState } from '@tanstack/react-router';
import { lazy, Suspense, useEffect, useLayoutEffect, useState } from 'react';
import { Toasts } from '../components/ui/Toast';
import { TooltipLayer } from '../components/ui/Tooltip';
import { DropTarget } from '../documents/DropTarget';
import { upload } from '../documents/uploads';
import { useCanWrite } from '../session/role';
import { identityKey, useSession } from '../session/session';
import { t, useLanguage } from '../shared/i18n';
import { listen } from '../shared/shortcuts/registry';
import { useShortcut } from '../shared/shortcuts/useShortcut';
import { AREAS, SETUP } from './areas';
import { PhoneBar, PhoneHead, Sidebar } from './Sidebar';
import { UnsentNotice } from './UnsentNotice';

const ShortcutsDialog = lazy(async () => ({
  default: (await import('../shared/shortcuts/ShortcutsDialog')).ShortcutsDialog,
}));
const AddFiles = lazy(async () => ({ default: (await import('../documents/AddFiles')).AddFiles }));
const SignIn = lazy(async () => ({ default: (await import('../session/SignIn')).SignIn }));
const CommandMenu = lazy(async () => ({ default: (await import('./CommandMenu')).CommandMenu }));

const SHOW_SHORTCUTS = { id: 'global.shortcuts', keys: '?' } as const;
const SEARCH = { id: 'global.search', keys: 'Mod+k', inInputs: true } as const;
const GO_TO = AREAS.map(({ to, area, keys }) => ({
  to,
  shortcut: { id: `global.${area}`, keys: `g ${keys}` } as const,
}));

export function Shell() {
  const current = useSession();
  const language = useLanguage();
  const navigate = useNavigate();
  const [opened, setOpened] = useState<'shortcuts' | 'search' | null>(null);
  const isSignedIn = current.token !== null;
  useEffect(listen, []);
  useShortcut(SHOW_SHORTCUTS, () => setOpened('shortcuts'), isSignedIn);
  useShortcut(SEARCH, () => setOpened('search'), isSignedIn);
  const { pathname } = useLocation();
  // A document's page then replaces this with its name.
  useLayoutEffect(() => {
    const area = [...AREAS, ...SETUP].find(({ to }) => pathname === to || pathname.startsWith(`${to}/`));
    document.title = area === undefined ? 'Fieldmark' : t('common.pageTitle', { title: t(`areas.${area.area}`) });
  }, [pathname, language]);

  // What had the focus may have gone with the page before.
  const shown = useRouterState({ select: ({ resolvedLocation }) => resolvedLocation?.pathname });
  useEffect(() => {
    if (document.activeElement === document.body) document.getElementById('main')?.focus({ preventScroll: true });
  }, [shown]);

  if (!isSignedIn)
    return (
      <Suspense>
        <SignIn />
      </Suspense>
    );
  const onSearch = () => setOpened('search');
  const onShowShortcuts = () => setOpened('shortcuts');
  const onFiles = (files: FileList | null) => {
    upload(files ?? []);
    void navigate({ to: '/documents' });
  };
  return (
    <div
      className="grid h-dvh grid-cols-[3.25rem_minmax(0,1fr)] grid-rows-[minmax(0,1fr)] max-sm:grid-cols-1 max-sm:grid-rows-[auto_minmax(0,1fr)_auto] lg:grid-cols-[13rem_minmax(0,1fr)]"
      key={`${identityKey(current)} ${language}`}>
      <a
        className="sr-only focus:not-sr-only focus:absolute focus:top-2 focus:left-2 focus:z-60 focus:rounded-md focus:bg-popover focus:p-2 focus:shadow-lg"
        href="#main">
        {t('shell.skip')}
      </a>
      <Sidebar onSearch={onSearch} onShowShortcuts={onShowShortcuts} />
      <PhoneHead onSearch={onSearch} onShowShortcuts={onShowShortcuts} />
      <main id="main" className="min-h-0 min-w-0 overflow-auto outline-none" tabIndex={-1}>
        <Outlet />
      </main>
      <PhoneBar onFiles={onFiles} />
      <Intake />
      <Suspense>
        {opened === 'shortcuts' && <ShortcutsDialog onClose={() => setOpened(null)} />}
        {opened === 'search' && <CommandMenu onClose={() => setOpened(null)} onShowShortcuts={onShowShortcuts} />}
      </Suspense>
      {GO_TO.map((one) => (
        <GoTo key={one.to} {...one} />
      ))}
      <UnsentNotice />
      <Toasts />
      <TooltipLayer />
    </div>
  );
}

/** Files that are dropped, pasted or chosen anywhere. */
function Intake() {
  const canWrite = useCanWrite();
  if (!canWrite) return null;
  return (
    <>
      <DropTarget />
      <Suspense>
        <AddFiles />
      </Suspense>
    </>
  );
}

/** G, then the key of an area. */
function GoTo({ to, shortcut }: (typeof GO_TO)[number]) {
  const navigate = useNavigate();
  useShortcut(shortcut, () => void navigate({ to }));
  return null;
}
