/** The areas that the bar leads to. Their addresses are also in api/edge.py (PAGE_ADDRESSES). */

export const AREAS = [{ to: '/documents', words: 'Documents' }] as const;
