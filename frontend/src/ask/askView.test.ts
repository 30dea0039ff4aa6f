import { expect, test } from 'vitest';
import { parseAskView } from './askView';

test.each([
  [
    { thread: 't', stack: 's' },
    { thread: 't', stack: 's' },
  ],
  [
    { find: 'roof', tag: 'paid', name: 'a', other: 1 },
    { find: 'roof', tag: 'paid', name: 'a' },
  ],
  [{ thread: 1, stack: '' }, {}],
])('the address %j shows %j', (search, view) => expect(parseAskView(search)).toEqual(view));
