/** The frame around every area: the navigation bar, the demo banner, the shortcuts dialog and the toasts. */

import { useQuery } from '@tanstack/react-query';
import { Link, Outlet, useLocation } from '@tanstack/react-router';
import { lazy, Suspense, useEffect, useLayoutEffect, useState } from 'react';
import { ApprovalCount } from './approvals/ApprovalCount';
import { AREAS } from './areas';
import { RecordsCount } from './tables/RecordsCount';
import { ReviewCount } from './review/ReviewCount';
import { AccountMenu } from './session/AccountMenu';
import { configQuery } from './session/config';
import { identityKey, useSession } from './session/session';
import { SignIn } from './session/SignIn';
import { t, useLanguage } from './shared/i18n';
import icon from './shared/icon.svg';
import { listen } from './shared/shortcuts/registry';
import { useShortcut } from './shared/shortcuts/useShortcut';
import { Toasts } from './components/ui/Toast';
import styles from './Shell.module.css';

const ShortcutsDialog = lazy(async () => ({
  default: (await import('./shared/shortcuts/ShortcutsDialog')).ShortcutsDialog,
}));
const SHOW_SHORTCUTS = { id: 'global.shortcuts', keys: '?' } as const;

export function Shell() {
  const current = useSession();
  const language = useLanguage();
  const config = useQuery(configQuery);
  const [shortcutsShown, showShortcuts] = useState(false);
  useEffect(listen, []);
  useShortcut(SHOW_SHORTCUTS, () => showShortcuts(true), current.token !== null);
  const { pathname } = useLocation();
  // A document's page then replaces this with its name.
  useLayoutEffect(() => {
    const area = [...AREAS, { to: '/settings', area: 'settings' } as const].find(
      ({ to }) => pathname === to || pathname.startsWith(`${to}/`),
    );
    document.title = area === undefined ? 'Fieldmark' : t('common.pageTitle', { title: t(`areas.${area.area}`) });
  }, [pathname, language]);

  if (current.token === null) return <SignIn />;
  return (
    <div className={styles.shell} key={`${identityKey(current)} ${language}`}>
      <a className={styles.skip} href="#main">
        {t('shell.skip')}
      </a>
      <header className={styles.bar}>
        <Link to="/documents" className={styles.brand} aria-label="Fieldmark">
          <img src={icon} alt="" width={20} height={20} />
          <span className={styles.name}>Fieldmark</span>
        </Link>
        <nav className={styles.areas} aria-label={t('areas.main')}>
          {AREAS.map(({ to, area }) => (
            <Link key={to} to={to}>
              {t(`areas.${area}`)}
              {to === '/records' && <RecordsCount />}
              {to === '/review' && <ReviewCount />}
              {to === '/approvals' && <ApprovalCount />}
            </Link>
          ))}
        </nav>
        <div className={styles.account}>
          <AccountMenu onShowShortcuts={() => showShortcuts(true)} />
        </div>
      </header>
      <div>{config.data?.offline_model === true && <p className={styles.banner}>{t('shell.demo')}</p>}</div>
      <main id="main" className={styles.main} tabIndex={-1}>
        <Outlet />
      </main>
      <Suspense>{shortcutsShown && <ShortcutsDialog onClose={() => showShortcuts(false)} />}</Suspense>
      <Toasts />
    </div>
  );
}
