import { expect, test } from 'vitest';
import { proposalOf, proposedChanges, type Proposal } from './proposals';

const proposal = (more: Partial<Proposal>) =>
  ({ path: 'items', old: [{ price: 1 }, { price: 2 }], new: [{ price: 2 }], removed: false, ...more }) as Proposal;

test('a proposal for a list is that of each field in it', () => {
  const all = [proposal({})];
  expect(['items', 'items[1].price', 'items.x'].map((path) => proposalOf(all, path))).toEqual([all[0], all[0], all[0]]);
  expect(['itemsize', 'total'].map((path) => proposalOf(all, path))).toEqual([undefined, undefined]);
});

test('a proposal says which values it changes, adds and removes', () => {
  expect(proposedChanges(proposal({ new: [{ price: 2 }, { price: 2, tax: 1 }] }))).toEqual([
    { path: 'items[0].price', was: 1, now: 2 },
    { path: 'items[1].tax', was: undefined, now: 1 },
  ]);
  expect(proposedChanges(proposal({ new: null, removed: true })).map(({ path, now }) => [path, now])).toEqual([
    ['items[0].price', undefined],
    ['items[1].price', undefined],
  ]);
});
