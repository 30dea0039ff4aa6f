/** Whose page it is: the organisation to act in, light or dark, signing out. */

import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useEffect } from 'react';
import { Button } from '../shared/Button';
import { visibleText } from '../shared/format';
import { usePersisted } from '../shared/persisted';
import { Menu, MenuItem, MenuLabel } from '../shared/Menu';
import { Icon } from '../shared/Icon';
import { theme, type Theme } from '../shared/theme';
import { toast } from '../shared/Toasts';
import { configQuery, meQuery } from './config';
import { session, useSession } from './session';

const THEMES: [Theme, string][] = [
  ['system', 'As the system has it'],
  ['light', 'Light'],
  ['dark', 'Dark'],
];

export function AccountMenu({ onShowKeys }: { onShowKeys: () => void }) {
  const { organisationId } = useSession();
  const chosenTheme = usePersisted(theme);
  const me = useQuery(meQuery);
  const config = useQuery(configQuery);
  const navigate = useNavigate();
  const organisations = me.data?.organisations ?? [];
  const current = organisations.find((one) => (organisationId === null ? one.is_personal : one.id === organisationId));

  // Whoever was removed meanwhile would find nothing anywhere.
  const isRemoved = me.data !== undefined && organisationId !== null && current === undefined;
  useEffect(() => {
    if (!isRemoved) return;
    session.selectOrganisation(null);
    // (All that is shown is made anew for the other organisation, what tells it too.)
    setTimeout(() => toast('You do not belong to that organisation any more. This is your own.', { seconds: 20 }), 200);
  }, [isRemoved]);

  function choose(id: string | null) {
    // What is open here is the other organisation's.
    void navigate({ to: '/documents' }).then(() => session.selectOrganisation(id));
  }

  async function leave() {
    if (config.data?.supabase) await (await import('./supabase')).signOut();
    else session.signOut();
  }

  return (
    <Menu
      trigger={
        <Button kind="quiet" aria-label={`Account: ${current?.name ?? ''}`}>
          <span className="truncate">{visibleText(current?.name ?? '…')}</span>
          <Icon name="down" size={12} />
        </Button>
      }
    >
      <MenuLabel>{me.data?.email ?? 'Organisation'}</MenuLabel>
      {organisations.map((one) => (
        <MenuItem key={one.id} chosen={one.id === current?.id} onChoose={() => choose(one.is_personal ? null : one.id)}>
          <span className="truncate">{visibleText(one.name)}</span>
        </MenuItem>
      ))}
      <MenuLabel>Colours</MenuLabel>
      {THEMES.map(([name, words]) => (
        <MenuItem key={name} chosen={chosenTheme === name} onChoose={() => theme.set(name)}>
          {words}
        </MenuItem>
      ))}
      <MenuLabel>Page</MenuLabel>
      <MenuItem onChoose={() => void navigate({ to: '/settings' })}>Settings</MenuItem>
      <MenuItem onChoose={onShowKeys}>Keys</MenuItem>
      <MenuItem onChoose={() => void leave()}>Sign out</MenuItem>
    </Menu>
  );
}
