/** The addresses of the page. Each area is loaded when it is first opened. The first word of each address is also in
 * api/request_guard.py (UI_PATHS): the service serves the page only there. */

import { createRootRoute, createRoute, createRouter, lazyRouteComponent, Link, redirect } from '@tanstack/react-router';
import { parseAskView, type AskView } from './ask/askView';
import { parseDocumentFilter, type DocumentFilter } from './documents/filter';
import { parseDocumentView, type DocumentView } from './document/documentView';
import { parseInboxView, type InboxView } from './inbox/inboxView';
import { parsePeriod, type PeriodView } from './home/period';
import { parseQualityView, type QualityView } from './quality/qualityView';
import { parseSettingsView } from './settings/settingsView';
import { parseRunsView, type RunsView } from './runs/runsView';
import { parseTableView, type TableView } from './records/tableView';
import { Shell } from './shell/Shell';
import { t } from './shared/i18n';
import { basePath } from './shared/serviceAddress';
import { Loading } from './components/ui/Loading';
import { EmptyState } from './components/ui/EmptyState';
import { PageError } from './components/ui/Notice';

const root = createRootRoute({
  component: Shell,
  notFoundComponent: () => (
    <EmptyState title={t('shell.notFound')}>
      <Link to="/documents">{t('shell.toDocuments')}</Link>
    </EmptyState>
  ),
});

const start = createRoute({
  getParentRoute: () => root,
  path: '/',
  beforeLoad: () => {
    throw redirect({ to: '/home', replace: true });
  },
});

const homeRoute = createRoute({
  getParentRoute: () => root,
  path: '/home',
  validateSearch: (search): PeriodView => parsePeriod(search),
  component: lazyRouteComponent(() => import('./home/HomePage'), 'HomePage'),
});

const qualityRoute = createRoute({
  getParentRoute: () => root,
  path: '/quality/$schemaId',
  validateSearch: (search): QualityView => parseQualityView(search),
  component: lazyRouteComponent(() => import('./quality/QualityPage'), 'QualityPage'),
});

const documentsRoute = createRoute({
  getParentRoute: () => root,
  path: '/documents',
  validateSearch: (search): DocumentFilter => parseDocumentFilter(search),
  component: lazyRouteComponent(() => import('./documents/DocumentsPage'), 'DocumentsPage'),
});

const documentRoute = createRoute({
  getParentRoute: () => root,
  path: '/documents/$documentId',
  validateSearch: (search): DocumentView => parseDocumentView(search),
  component: lazyRouteComponent(() => import('./document/DocumentPage'), 'DocumentPage'),
});

const tablesRoute = createRoute({
  getParentRoute: () => root,
  path: '/tables',
  component: lazyRouteComponent(() => import('./tables/TablesPage'), 'TablesPage'),
});

const tableRoute = createRoute({
  getParentRoute: () => root,
  path: '/tables/$tableId',
  validateSearch: (search): TableView => parseTableView(search),
  component: lazyRouteComponent(() => import('./tables/TablePage'), 'TablePage'),
});

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

const inboxRoute = createRoute({
  getParentRoute: () => root,
  path: '/inbox',
  validateSearch: (search): InboxView => parseInboxView(search),
  component: lazyRouteComponent(() => import('./inbox/InboxPage'), 'InboxPage'),
});

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

const askRoute = createRoute({
  getParentRoute: () => root,
  path: '/ask',
  validateSearch: (search): AskView => parseAskView(search),
  component: lazyRouteComponent(() => import('./ask/AskPage'), 'AskPage'),
});

/** The address of before passages were part of asking. */
const searchRoute = createRoute({
  getParentRoute: () => root,
  path: '/search',
  validateSearch: ({ q }): { q?: string } => (typeof q === 'string' ? { q } : {}),
  beforeLoad: ({ search: { q } }) => {
    throw redirect({ to: '/ask', search: q === undefined ? {} : { find: q }, replace: true });
  },
});

const schemasRoute = createRoute({
  getParentRoute: () => root,
  path: '/schemas',
  component: lazyRouteComponent(() => import('./schemas/SchemasPage'), 'SchemasPage'),
});

const schemaRoute = createRoute({
  getParentRoute: () => root,
  path: '/schemas/$schemaId',
  component: lazyRouteComponent(() => import('./schemas/SchemasPage'), 'SchemaPage'),
});

const runsRoute = createRoute({
  getParentRoute: () => root,
  path: '/runs',
  validateSearch: (search): RunsView => parseRunsView(search),
  component: lazyRouteComponent(() => import('./runs/RunsPage'), 'RunsPage'),
});

const runRoute = createRoute({
  getParentRoute: () => root,
  path: '/runs/$runId',
  validateSearch: (search): RunsView => parseRunsView(search),
  component: lazyRouteComponent(() => import('./runs/RunsPage'), 'RunPage'),
});

const settingsRoute = createRoute({
  getParentRoute: () => root,
  path: '/settings',
  validateSearch: parseSettingsView,
  component: lazyRouteComponent(() => import('./settings/SettingsPage'), 'SettingsPage'),
});

const membersRoute = createRoute({
  getParentRoute: () => root,
  path: '/members',
  component: lazyRouteComponent(() => import('./settings/SettingsPage'), 'MembersPage'),
});

const keysRoute = createRoute({
  getParentRoute: () => root,
  path: '/keys',
  component: lazyRouteComponent(() => import('./settings/SettingsPage'), 'KeysPage'),
});

const invitationRoute = createRoute({
  getParentRoute: () => root,
  path: '/invitation',
  component: lazyRouteComponent(() => import('./settings/InvitationPage'), 'InvitationPage'),
});

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
  defaultPendingComponent: Loading,
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
