/** The areas of the page, in the order of the sidebar. Their addresses are also in api/request_guard.py (UI_PATHS). */

import { Braces, CircleHelp, FileText, House, Inbox, KeyRound, Play, Settings, Table2, Users } from 'lucide-react';

/** `keys`: the second key after G. */
export const AREAS = [
  { to: '/home', area: 'home', icon: House, keys: 'h' },
  { to: '/inbox', area: 'inbox', icon: Inbox, keys: 'i' },
  { to: '/tables', area: 'tables', icon: Table2, keys: 't' },
  { to: '/documents', area: 'documents', icon: FileText, keys: 'd' },
  { to: '/ask', area: 'ask', icon: CircleHelp, keys: 'a' },
] as const;

export const SETUP = [
  { to: '/schemas', area: 'schemas', icon: Braces },
  { to: '/runs', area: 'runs', icon: Play },
  { to: '/members', area: 'members', icon: Users },
  { to: '/keys', area: 'keys', icon: KeyRound },
  { to: '/settings', area: 'settings', icon: Settings },
] as const;

export type Area = (typeof AREAS)[number] | (typeof SETUP)[number];
