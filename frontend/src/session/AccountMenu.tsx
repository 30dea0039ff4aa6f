/** The account menu: organisation, theme, language, settings, signing out. */

import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useEffect } from 'react';
import { Button } from '../components/ui/Button';
import { usePersisted } from '../shared/persisted';
import { Menu, MenuItem, MenuLabel, MenuSeparator } from '../components/ui/Menu';
import { LANGUAGES, languageChoice, t, type Language } from '../shared/i18n';
import { Icon } from '../shared/Icon';
import { theme, type Theme } from '../shared/theme';
import { toast } from '../components/ui/Toast';
import { configQuery, meQuery } from './config';
import { organisationName, useOrganisation } from './role';
import { session, useSession } from './session';

const THEMES: readonly Theme[] = ['system', 'light', 'dark'];

export function AccountMenu({ onShowShortcuts }: { onShowShortcuts: () => void }) {
  const { organisationId } = useSession();
  const chosenTheme = usePersisted(theme);
  const me = useQuery(meQuery);
  const config = useQuery(configQuery);
  const navigate = useNavigate();
  const organisations = me.data?.organisations ?? [];
  const current = useOrganisation();
  const chosenLanguage = usePersisted(languageChoice);

  // A removed member would get 404 everywhere: go back to the personal organisation.
  const isRemoved = me.data !== undefined && organisationId !== null && current === undefined;
  useEffect(() => {
    if (!isRemoved) return;
    session.selectOrganisation(null);
    // The toasts are mounted again for the other organisation.
    setTimeout(() => toast(t('account.removed'), { seconds: 20 }), 200);
  }, [isRemoved]);

  function switchTo(id: string | null) {
    // The open page belongs to the other organisation.
    void navigate({ to: '/documents' }).then(() => session.selectOrganisation(id));
  }

  async function signOut() {
    if (config.data?.supabase) await (await import('./supabase')).signOut();
    else session.signOut();
  }

  return (
    <Menu
      trigger={
        <Button
          kind="quiet"
          aria-label={t('account.menu', { name: current === undefined ? '' : organisationName(current) })}>
          <span className="truncate">{current === undefined ? '…' : organisationName(current)}</span>
          <Icon name="down" size={12} />
        </Button>
      }>
      <MenuLabel>{me.data?.email ?? t('account.organisation')}</MenuLabel>
      {organisations.map((one) => (
        <MenuItem
          key={one.id}
          chosen={one.id === current?.id}
          onChoose={() => switchTo(one.is_personal ? null : one.id)}>
          <span className="truncate">{organisationName(one)}</span>
        </MenuItem>
      ))}
      <MenuLabel>{t('account.theme')}</MenuLabel>
      {THEMES.map((name) => (
        <MenuItem key={name} chosen={chosenTheme === name} onChoose={() => theme.set(name)}>
          {t(`account.themes.${name}`)}
        </MenuItem>
      ))}
      <MenuLabel>{t('account.language')}</MenuLabel>
      <MenuItem chosen={chosenLanguage === null} onChoose={() => languageChoice.set(null)}>
        {t('account.browserLanguage')}
      </MenuItem>
      {(Object.keys(LANGUAGES) as Language[]).map((one) => (
        <MenuItem key={one} chosen={chosenLanguage === one} onChoose={() => languageChoice.set(one)}>
          <span lang={one}>{LANGUAGES[one]}</span>
        </MenuItem>
      ))}
      <MenuSeparator />
      <MenuItem onChoose={() => void navigate({ to: '/settings' })}>{t('account.settings')}</MenuItem>
      <MenuItem onChoose={onShowShortcuts}>{t('account.shortcuts')}</MenuItem>
      <MenuItem onChoose={() => void signOut()}>{t('account.signOut')}</MenuItem>
    </Menu>
  );
}
