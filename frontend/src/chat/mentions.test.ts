import { expect, test } from 'vitest';
import { mentionAt, mentionedIn, withMention, type Mention } from './mentions';

const SCHEMA: Mention = { type: 'schema', id: '1', name: 'Invoice' };
const TAG: Mention = { type: 'tag', id: '2', name: 'to pay' };

test('@ at the start of a word starts a mention', () => {
  expect(mentionAt('use @Inv', 8)).toEqual({ word: 'Inv', from: 4 });
  expect(mentionAt('@', 1)).toEqual({ word: '', from: 0 });
  expect(mentionAt('(@t', 3)).toEqual({ word: 't', from: 1 });
});

test('@ in an email address does not start a mention', () => {
  expect(mentionAt('me@example', 10)).toBeNull();
  expect(mentionAt('@Invoice and', 12)).toBeNull();
  expect(mentionAt('', 0)).toBeNull();
});

test('the name replaces the typed word', () => {
  expect(withMention('use @Inv for this', 4, 8, 'Invoice')).toEqual({ text: 'use @Invoice for this', caret: 13 });
  expect(withMention('@', 0, 1, 'to pay')).toEqual({ text: '@to pay ', caret: 8 });
});

test('a name removed from the message is not mentioned', () => {
  expect(mentionedIn('use @Invoice ', [SCHEMA, TAG])).toEqual([SCHEMA]);
  expect(mentionedIn('tag it @to pay, @Invoice', [SCHEMA, TAG, SCHEMA])).toEqual([SCHEMA, TAG]);
});
