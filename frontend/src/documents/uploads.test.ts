import { renderHook, waitFor } from '@testing-library/react';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { onUploaded, tryAgain, upload, useUploads } from './uploads';

let posted: string[];
let statuses: number[];

class Answers {
  upload = {};
  status = 201;
  responseText = '{"id": "d1"}';
  onload = () => undefined;
  open = (_: string, path: string) => {
    posted.push(path);
    this.status = statuses.shift() ?? 201;
  };
  setRequestHeader = () => undefined;
  send = () => void setTimeout(() => this.onload());
}

beforeEach(() => {
  posted = [];
  statuses = [];
  vi.stubGlobal('XMLHttpRequest', Answers);
});
afterEach(() => void vi.unstubAllGlobals());

test('a failed upload is sent again to the same stack', async () => {
  const onChange = vi.fn();
  onUploaded(onChange);
  statuses = [500];
  const { result } = renderHook(useUploads);
  upload([new File(['Total: 1'], 'a.txt')], 's1');
  await waitFor(() => expect(result.current[0]).toMatchObject({ status: 'failed' }));
  expect(onChange).not.toHaveBeenCalled();
  tryAgain(result.current[0]!.id);
  await waitFor(() => expect(result.current[0]).toMatchObject({ status: 'done', document: { id: 'd1' } }));
  expect(posted).toEqual(Array(2).fill('/api/documents?auto_create=false&stack_id=s1'));
  expect(onChange).toHaveBeenCalledWith({ id: 'd1' });
});
