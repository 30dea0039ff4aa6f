import { renderHook, waitFor } from '@testing-library/react';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { startProposal } from '../api/runs';
import { t } from '../shared/i18n';
import { onUploaded, tryAgain, upload, uploadOptions, useUploads } from './uploads';

vi.mock('../api/runs', () => ({ startProposal: vi.fn() }));

let posted: string[];

class Answers {
  upload = {};
  status = 201;
  responseText = '{"id": "d1"}';
  onload = () => undefined;
  open = (_: string, path: string) => void posted.push(path);
  setRequestHeader = () => undefined;
  send = () => void setTimeout(() => this.onload());
}

beforeEach(() => {
  posted = [];
  vi.stubGlobal('XMLHttpRequest', Answers);
  Object.assign(uploadOptions, { autoCreate: true, model: 'some-model' });
});
afterEach(() => void vi.unstubAllGlobals());

test('a file whose suggestion failed is not uploaded twice', async () => {
  const onChange = vi.fn();
  onUploaded(onChange);
  const proposal = vi.mocked(startProposal).mockRejectedValueOnce(new Error('No such model.'));
  const { result } = renderHook(useUploads);
  upload([new File(['Total: 1'], 'a.txt')]);
  await waitFor(() =>
    expect(result.current[0]).toMatchObject({
      status: 'failed',
      error: t('documents.uploads.notStarted', { reason: t('shell.unreachable') }),
    }),
  );
  expect(onChange).toHaveBeenCalledWith({ id: 'd1' });
  tryAgain(result.current[0]!.id);
  await waitFor(() => expect(result.current[0]).toMatchObject({ status: 'done', document: { id: 'd1' } }));
  expect(posted).toEqual(['/api/documents?auto_create=false']);
  const [first, second] = proposal.mock.calls;
  expect(second).toEqual(first);
  expect(first).toEqual(['d1', expect.any(String), 'some-model']);
});
