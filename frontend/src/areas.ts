/** The areas that the bar leads to. Their addresses are also in api/edge.py (PAGE_ADDRESSES). */

export const AREAS = [
  { to: '/documents', words: 'Documents' },
  { to: '/approvals', words: 'Approvals' },
  { to: '/ask', words: 'Ask' },
  { to: '/search', words: 'Search' },
] as const;
