import { expect, test } from 'vitest';
import { parseAskView } from './askView';

test.each([
  [
    { thread: 't', stack: 's' },
    { thread: 't', stack: 's' },
  ],
  [{ stack: 's', other: 1 }, { stack: 's' }],
  [{ thread: 1, stack: '' }, {}],
])('the address %j shows %j', (search, view) => expect(parseAskView(search)).toEqual(view));
