/** What is around every area of the page: the bar, the banner of the offline model, the sheet of keys. */

import { useQuery } from '@tanstack/react-query';
import { Link, Outlet, useLocation } from '@tanstack/react-router';
import { useEffect, useLayoutEffect, useState } from 'react';
import { ApprovalCount } from './approvals/ApprovalCount';
import { AREAS } from './areas';
import { ReviewCount } from './review/ReviewCount';
import { AccountMenu } from './session/AccountMenu';
import { configQuery } from './session/config';
import { identityKey, useSession } from './session/session';
import { SignIn } from './session/SignIn';
import icon from './shared/icon.svg';
import { listen } from './shared/shortcuts/registry';
import { ShortcutsDialog } from './shared/shortcuts/ShortcutsDialog';
import { Toasts } from './shared/Toasts';
import styles from './Shell.module.css';

export function Shell() {
  const current = useSession();
  const config = useQuery(configQuery);
  const [keysShown, showKeys] = useState(false);
  useEffect(listen, []);
  const { pathname } = useLocation();
  // (Before a document's page says its name.)
  useLayoutEffect(() => {
    const area = [...AREAS, { to: '/settings', words: 'Settings' }].find(({ to }) => pathname === to || pathname.startsWith(`${to}/`));
    document.title = area === undefined ? 'Fieldmark' : `${area.words} · Fieldmark`;
  }, [pathname]);

  if (current.token === null) return <SignIn />;
  return (
    <div className={styles.shell} key={identityKey(current)}>
      <a className={styles.skip} href="#main">
        Skip to content
      </a>
      <header className={styles.bar}>
        <Link to="/documents" className={styles.brand} aria-label="Fieldmark">
          <img src={icon} alt="" width={20} height={20} />
          <span className={styles.name}>Fieldmark</span>
        </Link>
        <nav className={styles.areas} aria-label="Areas">
          {AREAS.map(({ to, words }) => (
            <Link key={to} to={to}>
              {words}
              {to === '/review' && <ReviewCount />}
              {to === '/approvals' && <ApprovalCount />}
            </Link>
          ))}
        </nav>
        <div className={styles.account}>
          <AccountMenu onShowKeys={() => showKeys(true)} />
        </div>
      </header>
      <div>
        {config.data?.offline_model === true && (
          <p className={styles.banner}>
            Demo mode: built-in rules find only some fields. Add ANTHROPIC_API_KEY and restart to read with Claude.
          </p>
        )}
      </div>
      <main id="main" className={styles.main} tabIndex={-1}>
        <Outlet />
      </main>
      <ShortcutsDialog open={keysShown} setOpen={showKeys} />
      <Toasts />
    </div>
  );
}
