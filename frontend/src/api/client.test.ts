import { describe, expect, it } from 'vitest';
import { withExactIntegers } from './client';

describe('withExactIntegers', () => {
  it.each([
    ['{"a":9007199254740993,"b":[-123456789012345678901]}', { a: '9007199254740993', b: ['-123456789012345678901'] }],
    [
      '{"a":9007199254740991,"b":1e+23,"c":0.1234567890123456}',
      { a: 9007199254740991, b: 1e23, c: 0.1234567890123456 },
    ],
    ['{"12345678901234567":"x \\" 12345678901234567"}', { '12345678901234567': 'x " 12345678901234567' }],
  ])('keeps all digits of %s', (json, value) => {
    expect(JSON.parse(withExactIntegers(json))).toEqual(value);
  });
});
