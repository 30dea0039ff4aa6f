/** The addresses of the page. Each area is loaded when it is first opened. The first word of each address is also in
 * api/request_guard.py (UI_PATHS): the service serves the page only there. */

import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Link,
  redirect,
  type RouteComponent,
} from '@tanstack/react-router';
import { parseAskView } from './ask/askView';
import { parseDocumentFilter } from './documents/filter';
import { parseDocumentView } from './document/documentView';
import { parseInboxView } from './inbox/inboxView';
import { parsePeriod } from './home/period';
import { parseQualityView } from './quality/qualityView';
import { parseSettingsView } from './settings/settingsView';
import { parseRunsView } from './runs/runsView';
import { parseTableView, type TableView } from './records/tableView';
import { Shell } from './shell/Shell';
import { visibleText } from './shared/format';
import { t } from './shared/i18n';
import { basePath } from './shared/serviceAddress';
import { Loading } from './components/ui/Loading';
import { EmptyState } from './components/ui/EmptyState';
import { PageError } from './components/ui/Notice';

const root = createRootRoute({
  component: Shell,
  notFoundComponent: () => (
    <EmptyState title={t('shell.notFound')} text={visibleText(location.pathname)}>
      <Link to="/documents">{t('shell.toDocuments')}</Link>
    </EmptyState>
  ),
});

/** A page that is loaded when it is first opened. `parse` reads what it shows from its address. */
function page<const Path extends string, Search extends object, Name extends string>(
  path: Path,
  parse: (search: Record<string, unknown>) => Search,
  name: Name,
  load: () => Promise<Record<Name, RouteComponent>>,
) {
  const component = lazyRouteComponent(load, name) as RouteComponent;
  return createRoute({ getParentRoute: () => root, path, validateSearch: parse, component });
}

const noSearch = () => ({});

const start = createRoute({
  getParentRoute: () => root,
  path: '/',
  beforeLoad: () => {
    throw redirect({ to: '/home', replace: true });
  },
});

const homeRoute = page('/home', parsePeriod, 'HomePage', () => import('./home/HomePage'));
const qualityRoute = page('/quality/$schemaId', parseQualityView, 'QualityPage', () => import('./quality/QualityPage'));
const documentsRoute = page(
  '/documents',
  parseDocumentFilter,
  'DocumentsPage',
  () => import('./documents/DocumentsPage'),
);
const documentRoute = page(
  '/documents/$documentId',
  parseDocumentView,
  'DocumentPage',
  () => import('./document/DocumentPage'),
);
const tablesRoute = page('/tables', noSearch, 'TablesPage', () => import('./tables/TablesPage'));
const tableRoute = page('/tables/$tableId', parseTableView, 'TablePage', () => import('./tables/TablePage'));

/** Addresses of before. */
const formerTableRoutes = (['/records', '/stacks', '/records/$tableId', '/stacks/$tableId'] as const).map((path) =>
  createRoute({
    getParentRoute: () => root,
    path,
    validateSearch: (search): TableView => parseTableView(search),
    beforeLoad: ({ params, search }) => {
      const { tableId } = params as { tableId?: string };
      if (tableId === undefined) throw redirect({ to: '/tables', replace: true });
      throw redirect({ to: '/tables/$tableId', params: { tableId }, search, replace: true });
    },
  }),
);

const inboxRoute = page('/inbox', parseInboxView, 'InboxPage', () => import('./inbox/InboxPage'));

/** Addresses of before the inbox. */
const reviewRoute = createRoute({
  getParentRoute: () => root,
  path: '/review/$',
  validateSearch: ({ path }): { path?: string } => (typeof path === 'string' ? { path } : {}),
  beforeLoad: ({ search: { path } }) => {
    throw redirect({ to: '/inbox', search: path === undefined ? {} : { field: path }, replace: true });
  },
});

const approvalsRoute = createRoute({
  getParentRoute: () => root,
  path: '/approvals',
  beforeLoad: () => {
    throw redirect({ to: '/inbox', search: { kind: 'approval' }, replace: true });
  },
});

const askRoute = page('/ask', parseAskView, 'AskPage', () => import('./ask/AskPage'));

/** The address of before passages were part of asking. */
const searchRoute = createRoute({
  getParentRoute: () => root,
  path: '/search',
  validateSearch: ({ q }): { q?: string } => (typeof q === 'string' ? { q } : {}),
  beforeLoad: ({ search: { q } }) => {
    throw redirect({ to: '/ask', search: q === undefined ? {} : { find: q }, replace: true });
  },
});

const schemasRoute = page('/schemas', noSearch, 'SchemasPage', () => import('./schemas/SchemasPage'));
const schemaRoute = page('/schemas/$schemaId', noSearch, 'SchemaPage', () => import('./schemas/SchemasPage'));
const runsRoute = page('/runs', parseRunsView, 'RunsPage', () => import('./runs/RunsPage'));
const runRoute = page('/runs/$runId', parseRunsView, 'RunPage', () => import('./runs/RunsPage'));
const settingsRoute = page('/settings', parseSettingsView, 'SettingsPage', () => import('./settings/SettingsPage'));
const membersRoute = page('/members', noSearch, 'MembersPage', () => import('./settings/SettingsPage'));
const keysRoute = page('/keys', noSearch, 'KeysPage', () => import('./settings/SettingsPage'));
const invitationRoute = page('/invitation', noSearch, 'InvitationPage', () => import('./settings/InvitationPage'));

export const router = createRouter({
  routeTree: root.addChildren([
    start,
    homeRoute,
    qualityRoute,
    documentsRoute,
    documentRoute,
    tablesRoute,
    tableRoute,
    ...formerTableRoutes,
    inboxRoute,
    reviewRoute,
    approvalsRoute,
    askRoute,
    searchRoute,
    schemasRoute,
    schemaRoute,
    runsRoute,
    runRoute,
    settingsRoute,
    membersRoute,
    keysRoute,
    invitationRoute,
  ]),
  basepath: basePath,
  defaultPreload: 'intent',
  defaultPendingComponent: () => (
    <div className="h-full bg-background">
      <Loading />
    </div>
  ),
  defaultPendingMs: 150,
  // Unknown search parameters are dropped.
  search: { strict: true },
  // Errors of the API are shown where the call was made; this is for errors of the page itself.
  defaultErrorComponent: ({ error, reset }) => <PageError error={error} onRetry={reset} />,
  scrollRestoration: false,
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
