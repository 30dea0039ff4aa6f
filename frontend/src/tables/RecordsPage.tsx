/** The records of each schema as a table, and the items of its lists. */

import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { useMemo } from 'react';
import { useUpdateSearch } from '../shared/useUpdateSearch';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { Loading } from '../components/ui/Loading';
import { EmptyState } from '../components/ui/EmptyState';
import { ErrorNotice } from '../components/ui/Notice';
import { RecordsTable } from './RecordsTable';
import { TableViews } from '../shared/TableViews';
import { TableExport } from './TableExport';
import { TableTabs } from './TableTabs';
import styles from './Tables.module.css';
import { tableKey, tablesQuery, type TableRequest } from './tableQueries';
import type { TableView } from './tableView';

const recordsRoute = getRouteApi('/records');
const recordsTableRoute = getRouteApi('/records/$schemaId');

/** `/records`: the largest table. */
export function RecordsPage() {
  return <Records schemaId={undefined} view={recordsRoute.useSearch()} />;
}

/** `/records/<schema id>` */
export function RecordsTablePage() {
  return <Records schemaId={recordsTableRoute.useParams().schemaId} view={recordsTableRoute.useSearch()} />;
}

function Records({ schemaId, view }: { schemaId: string | undefined; view: TableView }) {
  const tables = useQuery(tablesQuery);
  const updateSearch = useUpdateSearch<TableView>();
  const shown =
    tables.data?.find(({ schema_id: id }) => id === schemaId) ??
    (schemaId === undefined ? tables.data?.[0] : undefined);
  const id = schemaId ?? shown?.schema_id;
  const key = JSON.stringify(view);
  const request = useMemo(
    (): TableRequest | null => (id === undefined ? null : { of: { schema: id }, ...view }),
    [id, key],
  );
  if (tables.isError) return <ErrorNotice error={tables.error} onRetry={() => void tables.refetch()} />;
  if (tables.data === undefined) return <Loading />;
  if (request === null || id === undefined) {
    return (
      <EmptyState title={t('records.noSchemas')}>
        <p>{t('records.noSchemasHint')}</p>
        <Link to="/documents">{t('shell.toDocuments')}</Link>
      </EmptyState>
    );
  }
  return (
    <div className={styles.page}>
      <div className={styles.bar}>
        <h1>{t('areas.records')}</h1>
        <TableTabs tables={tables.data} current={id} />
        <TableViews schemaId={id} stackId={null} />
        <TableExport request={request} name={visibleText(shown?.name ?? t('areas.records'))} />
      </div>
      <RecordsTable
        key={tableKey(request)}
        request={request}
        label={shown === undefined ? t('areas.records') : visibleText(shown.name)}
        onView={updateSearch}
      />
    </div>
  );
}
