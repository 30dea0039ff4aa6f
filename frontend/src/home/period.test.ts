import { expect, test } from 'vitest';
import { daysOf, neighbour, parsePeriod, periodOf, periodView } from './period';

test('a period has whole weeks from Monday, months and quarters', () => {
  const day = '2026-11-26';
  expect(periodOf({ span: 'week', day })).toEqual({ span: 'week', since: '2026-11-23', until: '2026-11-29' });
  expect(periodOf({ day })).toEqual({ span: 'month', since: '2026-11-01', until: '2026-11-30' });
  expect(periodOf({ span: 'quarter', day })).toEqual({ span: 'quarter', since: '2026-10-01', until: '2026-12-31' });
  expect(daysOf(periodOf({ day }))).toHaveLength(30);
});

test('stepping crosses years, and back', () => {
  for (const span of ['week', 'month', 'quarter'] as const) {
    const one = periodOf({ span, day: '2027-01-01' });
    expect(neighbour(neighbour(one, -1), 1)).toEqual(one);
  }
  expect(neighbour(periodOf({ day: '2027-01-31' }), -1).since).toBe('2026-12-01');
});

test('invalid addresses are dropped, and the current month has none', () => {
  expect(parsePeriod({ span: 'year', day: '2026-13-45' })).toEqual({});
  expect(parsePeriod({ span: 'week', day: '2026-02-03' })).toEqual({ span: 'week', day: '2026-02-03' });
  expect(periodView(periodOf({}))).toEqual({});
  expect(periodView(periodOf({ day: '2020-02-03' }))).toEqual({ day: '2020-02-01' });
});
