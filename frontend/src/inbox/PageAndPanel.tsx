/** The page of a document beside the panel with the question; above it in narrow windows. */

import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { Mark } from '../document/fields/fieldTree';
import { PageViewer, type ScrollTarget } from '../document/viewer/PageViewer';
import { cn } from '../components/ui/cn';
import { documentQuery } from '../documents/documentQueries';

interface Props {
  documentId: string | null;
  marks?: ReadonlyMap<number, readonly Mark[]>;
  chosen?: string | null;
  place?: ScrollTarget;
  onChoose?: (path: string) => void;
  /** The panel is wider. */
  isWide?: boolean;
  children: ReactNode;
}

const NO_MARKS: ReadonlyMap<number, readonly Mark[]> = new Map();

export function PageAndPanel(props: Props) {
  const { documentId, marks = NO_MARKS, chosen = null, place = { page: 1, at: 0 }, onChoose, isWide, children } = props;
  const document = useQuery({ ...documentQuery(documentId ?? ''), enabled: documentId !== null });
  const pages = document.data?.page_count ?? 0;
  return (
    <div className="flex min-h-0 flex-1 flex-col xl:flex-row">
      {documentId !== null && pages > 0 && (
        <div className="relative flex min-h-0 min-w-0 flex-1 flex-col bg-canvas *:min-h-0 *:flex-1">
          <PageViewer
            key={documentId}
            documentId={documentId}
            pages={pages}
            marks={marks}
            chosen={chosen}
            place={place}
            onChoose={onChoose ?? (() => undefined)}
          />
        </div>
      )}
      <div
        className={cn(
          'flex min-h-0 flex-col border-border bg-background max-xl:max-h-[55%] max-xl:min-h-[40%] max-xl:border-t xl:border-l',
          pages === 0 ? 'flex-1' : isWide ? 'xl:w-136' : 'xl:w-106',
        )}>
        {children}
      </div>
    </div>
  );
}
