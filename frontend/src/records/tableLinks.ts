/** The tables in the sidebar: those with documents. */

import { useQuery } from '@tanstack/react-query';
import { visibleText } from '../shared/format';
import { tablesQuery } from './tablesQuery';

export interface TableLink {
  id: string;
  name: string;
  /** Else its id is that of a schema. */
  isStack: boolean;
  count: number;
  /** The number of its documents that need a person. */
  toReview: number;
  link: { to: '/tables/$tableId'; params: { tableId: string } };
}

export function useTableLinks(): TableLink[] {
  return (useQuery(tablesQuery).data ?? [])
    .filter((table) => table.stack_id !== null || table.records > 0)
    .map((table) => ({
      id: table.id,
      isStack: table.stack_id !== null,
      name: visibleText(table.name),
      count: table.records,
      toReview: table.to_review,
      link: { to: '/tables/$tableId', params: { tableId: table.id } },
    }));
}
