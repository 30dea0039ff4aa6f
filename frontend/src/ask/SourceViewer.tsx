/** The page of a source, with boxes around the cited text. */

import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useMemo } from 'react';
import type { Box } from '../api/types';
import type { SourceLocation } from '../conversation/sourceLocation';
import type { Mark } from '../fields/fieldTree';
import { PageViewer } from '../viewer/PageViewer';
import { documentQuery } from '../documents/documentQueries';
import { Button } from '../components/ui/Button';
import { visibleText } from '../shared/format';
import { ErrorNotice } from '../components/ui/Notice';
import { useShortcut } from '../shared/shortcuts/useShortcut';
import { X } from 'lucide-react';
import { t } from '../shared/i18n';

const CLOSE = { id: 'source.close', keys: 'Escape' } as const;

export function SourceViewer({ place, onClose }: { place: SourceLocation; onClose: () => void }) {
  const { documentId, page, boxes, number, at } = place;
  const document = useQuery(documentQuery(documentId));
  const path = `source ${number ?? ''}`;
  const marks = useMemo(
    () =>
      new Map<number, readonly Mark[]>([
        [page, boxes.map((box) => ({ path, box: box as unknown as Box, status: 'found' as const }))],
      ]),
    [path, page, boxes],
  );
  useShortcut(CLOSE, onClose);
  return (
    <aside
      aria-label={t('ask.source')}
      className="flex min-h-0 w-[26.5rem] shrink-0 flex-col border-l border-border bg-background max-lg:absolute max-lg:inset-0 max-lg:z-20 max-lg:w-full max-lg:border-l-0">
      <div className="flex h-12 shrink-0 items-center gap-2 border-b border-border pr-2 pl-4">
        {number !== null && <b className="font-semibold">{number}</b>}
        <Link
          to="/documents/$documentId"
          params={{ documentId }}
          search={{ page }}
          className="min-w-0 flex-1 truncate font-medium text-foreground no-underline hover:underline">
          {visibleText(document.data?.filename ?? '…')}
        </Link>
        <Button kind="quiet" icon={X} label={t('ask.closeSource')} onClick={onClose} />
      </div>
      {document.isError ? (
        <ErrorNotice error={document.error} />
      ) : (
        document.data !== undefined && (
          <div className="grid min-h-0 flex-1">
            <PageViewer
              key={documentId}
              documentId={documentId}
              pages={document.data.page_count ?? 0}
              marks={marks}
              chosen={path}
              place={{ page, box: boxes[0] as unknown as Box | undefined, at }}
              onChoose={() => undefined}
            />
          </div>
        )
      )}
    </aside>
  );
}
