import { expect, test } from 'vitest';
import type { Change } from '../api/types';
import { versionsOf } from './versions';

const change = (version: number, path: string): Change =>
  ({ version, path, created_at: `2026-01-0${version}T00:00:00Z`, actor: 'agent', user_id: null }) as unknown as Change;

test('a version is dictated if all its changes are', () => {
  const of = (path: string, dictated_by: string | null): Change => ({ ...change(1, path), dictated_by });
  const author = (...changes: Change[]) => versionsOf(changes)[0]!.dictatedBy;
  expect([
    author(of('a', 'jo'), of('b', 'jo')),
    author(of('a', 'jo'), of('b', null)),
    author(of('a', null), of('b', 'jo')),
  ]).toEqual(['jo', null, null]);
});

test('changes are grouped by version', () => {
  const versions = versionsOf([change(3, 'a'), change(2, 'b'), change(2, 'c'), change(1, 'd')]);
  expect(versions.map((one) => [one.version, one.changes.map((each) => each.path)])).toEqual([
    [3, ['a']],
    [2, ['b', 'c']],
    [1, ['d']],
  ]);
  expect(versionsOf([])).toEqual([]);
});
