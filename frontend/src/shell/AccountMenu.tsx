/** The organisation's menu at the head of the navigation, and the person's at its foot. */

import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { ChevronsUpDown, Keyboard, LogOut, Monitor, Moon, Sun } from 'lucide-react';
import { useEffect } from 'react';
import { Avatar } from '../session/Avatar';
import { cn } from '../components/ui/cn';
import { Menu, MenuItem, MenuLabel, MenuSeparator } from '../components/ui/Menu';
import { toast } from '../components/ui/Toast';
import { configQuery, meQuery } from '../session/config';
import { nameOfEmail } from '../session/people';
import { organisationName, useOrganisation } from '../session/role';
import { session, useSession } from '../session/session';
import { LANGUAGES, languageChoice, t, type Language } from '../shared/i18n';
import icon from '../shared/icon.svg';
import { usePersisted } from '../shared/persisted';
import { theme, type Theme } from '../shared/theme';
import { SETUP } from './areas';

const THEMES = { system: Monitor, light: Sun, dark: Moon } as const;
const triggerClass =
  'flex min-h-10 min-w-0 items-center gap-2.5 rounded-md px-1.5 text-left hover:bg-hover data-popup-open:bg-hover';

export function OrganisationMenu({ isPhone = false }: { isPhone?: boolean }) {
  const { organisationId } = useSession();
  const me = useQuery(meQuery);
  const navigate = useNavigate();
  const current = useOrganisation();
  const name = current === undefined ? '…' : organisationName(current);

  // A removed member would get 404 everywhere: go back to the personal organisation.
  const isRemoved = me.data !== undefined && organisationId !== null && current === undefined;
  useEffect(() => {
    if (!isRemoved || isPhone) return; // the menu is there twice
    session.selectOrganisation(null);
    // The toasts are mounted again for the other organisation.
    setTimeout(() => toast(t('account.removed'), { seconds: 20 }), 200);
  }, [isRemoved, isPhone]);

  function switchTo(id: string | null) {
    // The open page belongs to the other organisation.
    void navigate({ to: '/documents' }).then(() => session.selectOrganisation(id));
  }

  const words = isPhone ? '' : 'max-lg:hidden';
  return (
    <Menu
      align="start"
      className="min-w-56"
      trigger={
        <button type="button" className={cn(triggerClass, !isPhone && 'w-full max-lg:justify-center')}>
          <img src={icon} alt="" width={28} height={28} className="size-7 rounded-md" />
          <span className={cn('min-w-0 flex-1', !isPhone && 'max-lg:sr-only')}>
            <span className="sr-only">{t('account.organisation')}: </span>
            <span className="block truncate font-semibold">{name}</span>
            <span className="block text-2xs text-muted-foreground">Fieldmark</span>
          </span>
          <ChevronsUpDown size={14} className={cn('text-muted-foreground', words)} aria-hidden="true" />
        </button>
      }>
      <MenuLabel>{t('account.organisation')}</MenuLabel>
      {(me.data?.organisations ?? []).map((one) => (
        <MenuItem
          key={one.id}
          chosen={one.id === current?.id}
          onChoose={() => switchTo(one.is_personal ? null : one.id)}>
          <span className="truncate">{organisationName(one)}</span>
        </MenuItem>
      ))}
      <MenuSeparator />
      {SETUP.map(({ to, area, icon: Sign }) => (
        <MenuItem key={area} icon={Sign} onChoose={() => void navigate({ to })}>
          {t(`areas.${area}`)}
        </MenuItem>
      ))}
    </Menu>
  );
}

export function PersonMenu({ isPhone = false, onShowShortcuts }: { isPhone?: boolean; onShowShortcuts: () => void }) {
  const me = useQuery(meQuery);
  const config = useQuery(configQuery);
  const chosenTheme = usePersisted(theme);
  const chosenLanguage = usePersisted(languageChoice);
  const email = me.data?.email ?? null;
  const name = email === null ? t('account.you') : nameOfEmail(email);

  async function signOut() {
    if (config.data?.supabase) await (await import('../session/supabase')).signOut();
    else session.signOut();
  }

  const words = isPhone ? 'hidden' : 'max-lg:hidden';
  return (
    <Menu
      align="start"
      side={isPhone ? 'bottom' : 'top'}
      className="min-w-56"
      trigger={
        <button
          type="button"
          aria-label={t('account.menu', { name })}
          className={cn(triggerClass, isPhone ? 'min-h-11 justify-center' : 'mt-2 w-full max-lg:justify-center')}>
          <Avatar id={me.data?.user_id ?? ''} size={28} />
          <span className={cn('min-w-0 flex-1 truncate font-medium', words)}>{name}</span>
          <ChevronsUpDown size={14} className={cn('text-muted-foreground', words)} aria-hidden="true" />
        </button>
      }>
      {email !== null && <MenuLabel>{email}</MenuLabel>}
      <MenuLabel>{t('account.theme')}</MenuLabel>
      {(Object.keys(THEMES) as Theme[]).map((one) => (
        <MenuItem key={one} icon={THEMES[one]} chosen={chosenTheme === one} onChoose={() => theme.set(one)}>
          {t(`account.themes.${one}`)}
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
      <MenuItem icon={Keyboard} keys="?" onChoose={onShowShortcuts}>
        {t('account.shortcuts')}
      </MenuItem>
      <MenuItem icon={LogOut} onChoose={() => void signOut()}>
        {t('account.signOut')}
      </MenuItem>
    </Menu>
  );
}
