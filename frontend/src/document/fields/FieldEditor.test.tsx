import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import { afterEach, expect, test, vi } from 'vitest';
import { FieldEditor } from './FieldEditor';

afterEach(cleanup);

test.each([
  ['Enter', '13', { edited: 13, was: 12 }],
  ['Enter', '12', undefined],
  ['Escape', '13', undefined],
])('%s on %s', (key, text, expected) => {
  const finish = vi.fn();
  render(<FieldEditor value={12} label="total" onFinish={finish} />);
  const input = screen.getByRole('textbox');
  fireEvent.change(input, { target: { value: text } });
  fireEvent.keyDown(input, { key });
  fireEvent.blur(input);
  expect(finish.mock.calls).toEqual([[expected]]);
});
