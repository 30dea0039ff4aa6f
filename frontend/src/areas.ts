/** The areas in the navigation bar. Their addresses are also in api/request_guard.py (UI_PATHS). */

export const AREAS = [
  { to: '/documents', area: 'documents' },
  { to: '/records', area: 'records' },
  { to: '/stacks', area: 'stacks' },
  { to: '/review', area: 'review' },
  { to: '/approvals', area: 'approvals' },
  { to: '/ask', area: 'ask' },
  { to: '/search', area: 'search' },
] as const;
