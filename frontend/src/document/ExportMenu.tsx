/** Saves an extraction as a file. */

import { useMutation } from '@tanstack/react-query';
import { file } from '../api/client';
import { Button } from '../shared/Button';
import { Menu, MenuItem } from '../shared/Menu';
import { errorMessage } from '../shared/Notice';
import { Icon } from '../shared/Icon';
import { toast } from '../shared/Toasts';

const FORMATS = [
  ['xlsx', 'Excel'],
  ['csv', 'CSV'],
  ['json', 'JSON'],
  ['html', 'A page with the boxes (HTML)'],
] as const;

export function ExportMenu({ extractionId, name }: { extractionId: string; name: string }) {
  const save = useMutation({
    mutationFn: async (format: string) => {
      const content = await file(`/api/extractions/${encodeURIComponent(extractionId)}/export?format=${format}`);
      const link = document.createElement('a');
      // As bytes alone: whatever it is, it is saved and never shown here.
      link.href = URL.createObjectURL(new Blob([content], { type: 'application/octet-stream' }));
      link.download = `${name.replace(/\.[^.]{1,5}$/, '')}.${format}`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    },
    onError: (error) => toast(errorMessage(error), { urgent: true }),
  });
  return (
    <Menu
      trigger={
        <Button disabled={save.isPending}>
          Export <Icon name="down" size={12} />
        </Button>
      }
    >
      {FORMATS.map(([format, words]) => (
        <MenuItem key={format} onChoose={() => save.mutate(format)}>
          {words}
        </MenuItem>
      ))}
    </Menu>
  );
}
