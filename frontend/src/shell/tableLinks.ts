/** The tables in the sidebar: stacks, and schemas with records that belong to no stack. */

import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { stacksQuery } from '../stacks/stackQueries';
import { visibleText } from '../shared/format';
import { tablesQuery } from '../tables/tableQueries';

export interface TableLink {
  id: string;
  name: string;
  count: number;
  link:
    | { to: '/stacks/$stackId'; params: { stackId: string } }
    | { to: '/records/$schemaId'; params: { schemaId: string } };
}

export function useTableLinks(): TableLink[] {
  const stacks = useInfiniteQuery(stacksQuery).data?.pages.flatMap((page) => page.items) ?? [];
  const tables = useQuery(tablesQuery).data ?? [];
  const ofStacks = new Set(stacks.map((stack) => stack.schema_id));
  return [
    ...stacks.map(
      (stack): TableLink => ({
        id: stack.id,
        name: visibleText(stack.name),
        count: stack.progress.documents,
        link: { to: '/stacks/$stackId', params: { stackId: stack.id } },
      }),
    ),
    ...tables
      .filter((table) => table.records > 0 && !ofStacks.has(table.schema_id))
      .map(
        (table): TableLink => ({
          id: table.schema_id,
          name: visibleText(table.name),
          count: table.records,
          link: { to: '/records/$schemaId', params: { schemaId: table.schema_id } },
        }),
      ),
  ];
}
