import { act, cleanup, render, screen } from '@testing-library/react';
import {
  Outlet,
  RouterProvider,
  createMemoryHistory,
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
} from '@tanstack/react-router';
import { afterEach, expect, test } from 'vitest';
import { useUpdateSearch } from './useUpdateSearch';

afterEach(cleanup);

/** The document that is shown, its function, and a next area whose code is loaded once `load` is called. */
async function shown() {
  let change: ReturnType<typeof useUpdateSearch<{ field?: string }>> | undefined;
  let load: () => void = () => undefined;
  const loaded = new Promise<void>((resolve) => (load = resolve));
  function Document() {
    const { id } = documentRoute.useParams();
    const own = useUpdateSearch<{ field?: string }>();
    change ??= own; // a timer and an answer hold the function of when they were started
    return <h1>Document {id}</h1>;
  }
  const root = createRootRoute({ component: Outlet });
  const documentRoute = createRoute({ getParentRoute: () => root, path: '/documents/$id', component: Document });
  const searchRoute = createRoute({
    ...{ getParentRoute: () => root, path: '/search' },
    component: lazyRouteComponent(async () => {
      await loaded;
      return { default: () => <h1>Search</h1> };
    }),
  });
  const history = createMemoryHistory({ initialEntries: ['/documents/1'] });
  const router = createRouter({ routeTree: root.addChildren([documentRoute, searchRoute]), history });
  render(<RouterProvider router={router as never} />);
  await screen.findByText('Document 1');
  const late = () => act(async () => change!((params) => ({ ...params, field: 'total' })));
  return { history, load, late, address: () => history.location.href };
}

test('a change is in the address', async () => {
  const { late, address } = await shown();
  await late();
  expect(address()).toBe('/documents/1?field=total');
});

test('a late change does not undo a navigation to another area', async () => {
  const { history, load, late, address } = await shown();
  act(() => history.push('/search'));
  screen.getByText('Document 1');
  await late();
  expect(address()).toBe('/search');
  load();
  await screen.findByText('Search');
  await late();
  expect(address()).toBe('/search');
});

test('a late change does not undo a navigation to another document', async () => {
  const { history, late, address } = await shown();
  act(() => history.push('/documents/2'));
  await screen.findByText('Document 2');
  await late();
  expect(address()).toBe('/documents/2');
});
